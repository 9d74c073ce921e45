#include "lockstep/distributed/comm/make_process_group.h"

#include "lockstep/base/failpoint.h"
#include "lockstep/distributed/comm/gloo_group.h"
#include "lockstep/distributed/comm/interface.h"
#include "lockstep/distributed/comm/job_token.h"
#include "lockstep/distributed/comm/meeting_point.h"
#include "lockstep/distributed/comm/nccl/nccl_group.h"
#include "lockstep/distributed/comm/nccl/nccl_library.h"
#include "lockstep/distributed/comm/paired_group.h"
#include "lockstep/distributed/comm/rank_env.h"
#include "lockstep/distributed/comm/rendezvous.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/socket.h"
#include "lockstep/distributed/comm/start_store.h"
#include "lockstep/tensor/memory.h"

#include <numeric>

namespace lockstep {
namespace {

void check_backend(const std::string& backend) {
  check(backend == "auto" || backend == "gloo" || backend == "nccl" || backend == "single",
        "make_process_group: wanted the backend auto, gloo, nccl or single, got '", backend, "'");
}

bool wants_nccl(const ProcessGroupOptions& options) {
  return options.backend == "nccl" || (options.backend == "auto" && !options.device.is_cpu());
}

/// Before the ranks meet, so that a rank that lacks something says so and not that it is alone.
void require_nccl() {
  comm::nccl_library();
  require_cuda();
}

/// The address of the interface that the options ask for; empty: they ask for none.
std::string chosen_address(const ProcessGroupOptions& options) {
  return options.interface.empty() ? "" : comm::address_of_interface(options.interface);
}

/// The group of the ranks that have met at `store`, which rank 0 serves at `info.master_addr`.
JoinedGroup join_at(std::shared_ptr<Store> store, const RankInfo& info, const std::string& chosen,
                    const ProcessGroupOptions& options) {
  failpoint("make_process_group.after_meeting");
  std::vector<int> ranks(static_cast<size_t>(info.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  comm::StartStore start(*store, "start", info.rank, std::move(ranks));
  std::string own;
  RankPlace place = start.run([&] {
    own = chosen.empty() ? comm::local_address_towards(info.master_addr) : chosen;
    return comm::find_place(start, comm::own_seat(own), info.rank, info.world_size,
                            options.start_timeout);
  });
  auto host = make_gloo_group(store, "world", info.rank, info.world_size,
                              {.host = own,
                               .timeout = options.timeout,
                               .start_timeout = options.start_timeout,
                               .stall_warning = options.stall_warning});
  if (!wants_nccl(options)) return {std::move(host), std::move(place)};
  auto device =
      make_nccl_group(comm::nccl_library(), std::move(store), "gpus", info.rank, info.world_size,
                      {.timeout = options.timeout,
                       .start_timeout = options.start_timeout,
                       .stall_warning = options.stall_warning,
                       .max_ctas = options.nccl_max_ctas,
                       .register_buffers = options.nccl_register_buffers,
                       .host_id = process_environment()("NCCL_HOSTID").value_or("")});
  return {make_paired_group(std::move(host), std::move(device)), std::move(place)};
}

JoinedGroup join(const RankEnv& rank, const ProcessGroupOptions& options) {
  if (wants_nccl(options)) {
    choose_cuda_device(rank.local_rank);
    require_nccl();
  }
  failpoint("make_process_group.before_meeting");
  const Environment env = process_environment();
  const MeetingPoint at = meeting_point(rank, env, options.init_method);
  const bool one_host = rank.local_size == rank.world_size;
  const std::string chosen = chosen_address(options);
  RankInfo info{.rank = rank.rank,
                .world_size = rank.world_size,
                .master_addr = at.host,
                .master_port = at.port};
  std::shared_ptr<Store> store;
  if (!at.file.empty()) {
    info.master_addr = !chosen.empty() ? chosen : one_host ? "127.0.0.1" : comm::outward_address();
    store = join_store_by_file(info, at.file, rank.job, options.start_timeout);
  } else {
    if (!one_host) info.master_addr = comm::address_for_all(at.host, chosen);
    store = join_store(info, job_token(rank.job, env), options.start_timeout);
  }
  return join_at(std::move(store), info, chosen, options);
}

}  // namespace

JoinedGroup join_process_group(const ProcessGroupOptions& options) {
  const std::string& backend = options.backend;
  check_backend(backend);
  const auto rank = rank_from_env();
  const int world_size = rank ? rank->world_size : 1;
  check(backend != "single" || world_size == 1,
        "make_process_group: the backend single has one rank, but WORLD_SIZE is ", world_size);
  check((backend != "gloo" && backend != "nccl") || rank.has_value(),
        "make_process_group: RANK and WORLD_SIZE are not set; start the program with `lockstep "
        "launch --nproc N -- program`");
  if (!rank && !has_launcher()) {
    // Whoever says where or how the ranks meet does not mean to be alone.
    const char* said = !options.init_method.empty() ? "where the ranks meet (init method)"
                       : !options.interface.empty() ? "an interface for the ranks"
                                                    : nullptr;
    check(said == nullptr, "make_process_group: wanted RANK and WORLD_SIZE beside ", said,
          ", got none, so that this process would be alone; set them for every rank, start the "
          "program with `lockstep launch --nproc N -- program`, or leave the other out");
  }
  if (!rank || backend == "single") return {make_single_group(), comm::place_alone()};
  return join(*rank, options);
}

std::unique_ptr<ProcessGroup> make_process_group(const ProcessGroupOptions& options) {
  return join_process_group(options).group;
}

std::unique_ptr<ProcessGroup> make_process_group(const RankInfo& info, const std::string& token,
                                                 const ProcessGroupOptions& options) {
  const std::string& backend = options.backend;
  check_backend(backend);
  check(info.rank >= 0 && info.rank < info.world_size,
        "make_process_group: wanted 0 <= rank < world_size, got rank ", info.rank, " of ",
        info.world_size);
  check(backend != "single" || info.world_size == 1,
        "make_process_group: the backend single has one rank, but world_size is ", info.world_size);
  if (backend == "single" || (backend == "auto" && info.world_size == 1)) {
    return make_single_group();
  }
  check(!info.master_addr.empty() && info.master_port != 0,
        "make_process_group: wanted the address and the port of rank 0 in master_addr and "
        "master_port, got '",
        info.master_addr, "' and ", info.master_port);
  if (wants_nccl(options)) require_nccl();
  auto store = join_store(info, token, options.start_timeout);
  return join_at(std::move(store), info, chosen_address(options), options).group;
}

}  // namespace lockstep

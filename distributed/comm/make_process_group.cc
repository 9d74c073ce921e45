#include "lockstep/distributed/comm/make_process_group.h"

#include "lockstep/distributed/comm/gloo_group.h"
#include "lockstep/distributed/comm/rendezvous.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/socket.h"
#include "lockstep/distributed/comm/tcp_store.h"

namespace lockstep {

namespace {

void check_backend(const std::string& backend) {
  check(backend == "auto" || backend == "gloo" || backend == "single",
        "make_process_group: wanted the backend auto, gloo or single, got '", backend, "'");
}

std::unique_ptr<ProcessGroup> meet_over_gloo(const RankInfo& info, const std::string& token,
                                             const ProcessGroupOptions& options) {
  auto store = join_store(info, token, options.start_timeout);
  const std::string host =
      options.host.empty() ? comm::local_address_towards(info.master_addr) : options.host;
  return make_gloo_group(
      std::move(store), "world", info.rank, info.world_size,
      {.host = host, .timeout = options.timeout, .start_timeout = options.start_timeout});
}

}  // namespace

std::unique_ptr<ProcessGroup> make_process_group(const ProcessGroupOptions& options) {
  const std::string& backend = options.backend;
  check_backend(backend);
  const auto info = rank_from_env();
  const int world_size = info ? info->world_size : 1;
  check(backend != "single" || world_size == 1,
        "make_process_group: the backend single has one rank, but WORLD_SIZE is ", world_size);
  check(backend != "gloo" || info.has_value(),
        "make_process_group: RANK and WORLD_SIZE are not set; start the program with `lockstep "
        "launch --nproc N -- program`");
  if (!info || backend == "single") return make_single_group();
  return meet_over_gloo(*info, job_token_from_env(), options);
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
  return meet_over_gloo(info, token, options);
}

}  // namespace lockstep

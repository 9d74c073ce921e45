#include "lockstep/tests/distributed/rank_groups.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/gloo_group.h"
#include "lockstep/distributed/comm/nccl/nccl_group.h"
#include "lockstep/distributed/comm/paired_group.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/tests/support/fake_nccl.h"
#include "lockstep/tests/support/sim_device.h"

#include <optional>
#include <random>
#include <thread>

namespace lockstep::testing {
namespace {

void delay(int rank, int64_t sequence) {
  std::mt19937 random(static_cast<unsigned>(sequence * 64 + rank));
  if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
}

}  // namespace

std::vector<std::string> run_ranks(const std::string& backend, int n,
                                   const std::function<void(GroupPtr)>& fn,
                                   std::chrono::milliseconds timeout) {
  const bool on_device = backend == "nccl";
  constexpr Delay kAtRandom{std::chrono::microseconds(0), std::chrono::microseconds(200)};
  std::optional<SimDevice> device;
  FakeNccl nccl;
  std::vector<std::unique_ptr<comm::NcclApi>> libraries(static_cast<size_t>(n));
  if (on_device) device.emplace(SimDeviceOptions{.compute = kAtRandom, .side = kAtRandom});
  std::vector<GroupPtr> groups(static_cast<size_t>(n));
  std::shared_ptr<TcpStore> server;
  if (backend != "gloo") groups = make_thread_groups(n, {.timeout = timeout, .delay = delay});
  if (backend != "threads") {
    server = std::make_shared<TcpStore>(TcpStoreOptions{.serve = true, .token = "t", .rank = 0});
  }
  std::vector<std::string> errors(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      try {
        GroupPtr group = std::move(groups[static_cast<size_t>(r)]);
        if (backend != "threads") {
          const std::shared_ptr<Store> store =
              r == 0 ? server
                     : std::make_shared<TcpStore>(
                           TcpStoreOptions{.port = server->port(), .token = "t", .rank = r});
          if (on_device) {
            auto& library = libraries[static_cast<size_t>(r)];
            library = nccl.rank({.in_progress = std::chrono::microseconds(100)});
            group = make_paired_group(std::move(group), make_nccl_group(*library, store, "g", r, n,
                                                                        {.timeout = timeout}));
          } else {
            group = make_gloo_group(store, "g", r, n, {.timeout = timeout});
          }
        }
        fn(std::move(group));
      } catch (const std::exception& e) {
        errors[static_cast<size_t>(r)] = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const std::string& misuse : nccl.misuses()) errors[0] += str("; misuse: ", misuse);
  if (nccl.live() > 0) errors[0] += str("; ", nccl.live(), " communicators are left");
  return errors;
}

void run_all_well(const std::string& backend, int n, const std::function<void(GroupPtr)>& fn) {
  const auto errors = run_ranks(backend, n, fn);
  for (size_t r = 0; r < errors.size(); ++r) {
    if (!errors[r].empty()) throw Error(str(backend, ", rank ", r, " of ", n, ": ", errors[r]));
  }
}

}  // namespace lockstep::testing

#include "lockstep/tests/distributed/rank_groups.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/gloo_group.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/distributed/comm/thread_group.h"

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
  std::vector<GroupPtr> groups;
  std::shared_ptr<TcpStore> server;
  if (backend == "threads") {
    groups = make_thread_groups(n, {.timeout = timeout, .delay = delay});
  } else {
    groups.resize(static_cast<size_t>(n));
    server = std::make_shared<TcpStore>(TcpStoreOptions{.serve = true, .token = "t", .rank = 0});
  }
  std::vector<std::string> errors(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      try {
        GroupPtr group = std::move(groups[static_cast<size_t>(r)]);
        if (!group) {
          const std::shared_ptr<Store> store =
              r == 0 ? server
                     : std::make_shared<TcpStore>(
                           TcpStoreOptions{.port = server->port(), .token = "t", .rank = r});
          group = make_gloo_group(store, "g", r, n, {.timeout = timeout});
        }
        fn(std::move(group));
      } catch (const std::exception& e) {
        errors[static_cast<size_t>(r)] = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

void run_all_well(const std::string& backend, int n, const std::function<void(GroupPtr)>& fn) {
  const auto errors = run_ranks(backend, n, fn);
  for (size_t r = 0; r < errors.size(); ++r) {
    if (!errors[r].empty()) throw Error(str(backend, ", rank ", r, " of ", n, ": ", errors[r]));
  }
}

}  // namespace lockstep::testing

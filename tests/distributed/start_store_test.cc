// What a rank that waits in the store is told while ranks start; what processes show is in
// start_process_test.cc.
#include "lockstep/distributed/comm/start_store.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/support/eventually.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>

namespace lockstep {
namespace {

using comm::StartStore;
using comm::StartWatch;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLong{20'000};

std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const CommError& e) {
    return e.what();
  }
  return "";
}

/// Four ranks at one store, of which 0, 1 and 2 start together.
struct Job {
  Job() {
    stores.push_back(std::make_unique<TcpStore>(
        TcpStoreOptions{.serve = true, .token = "t", .rank = 0, .linger = milliseconds(0)}));
    for (int rank = 1; rank < 4; ++rank) {
      stores.push_back(std::make_unique<TcpStore>(
          TcpStoreOptions{.port = stores[0]->port(), .token = "t", .rank = rank}));
    }
  }
  StartStore start(int rank) { return {*stores[static_cast<size_t>(rank)], "g", rank, {0, 1, 2}}; }
  /// The rank's connections are closed, and the server has seen it.
  void end(int rank) {
    stores[static_cast<size_t>(rank)] = nullptr;
    if (rank == 0) return;
    const std::string name = std::to_string(rank);
    CHECK(testing::eventually([&] {
      try {
        return stores[0]->get(Store::kGone, {}).find(name) != std::string::npos;
      } catch (const CommError&) {
        return false;
      }
    }));
  }

  std::vector<std::unique_ptr<TcpStore>> stores;
};

TEST_CASE("start: the first who died is named; who has started, and who takes no part, is not") {
  Job job;
  job.end(3);
  job.stores[0]->set("later", "1");
  StartStore start = job.start(0);
  CHECK(start.get("later", kLong) == "1");
  CHECK(message_of([&] { start.get("never", milliseconds(300)); }) ==
        "Store::get: nobody has set 'never' within 300 ms");

  job.start(1).started();
  job.end(1);
  CHECK(!start.failure(*job.stores[0]));
  CHECK(!start.failure_soon());

  job.end(2);
  const auto begin = steady_clock::now();
  CHECK(message_of([&] { start.get("never", kLong); }) ==
        "a peer was lost or is late: rank 2 is dead (gone so far: rank 3, 1, 2)");
  CHECK(message_of([&] {
          start.wait({"later", "never"}, kLong);
        }).find("rank 2 is dead") != std::string::npos);
  CHECK(steady_clock::now() - begin < milliseconds(5000));
  CHECK(start.get("later", kLong) == "1");  // what is there is there
}

TEST_CASE("start: the first cause is told, and not what followed from it") {
  Job job;
  const auto fails_of = [](StartStore start, const std::string& why) {
    message_of([&] { start.run([&]() -> int { throw CommError(why); }); });
  };
  fails_of(job.start(0), "g: a peer was lost or is late: rank 1");
  CHECK(!job.start(0).failure(*job.stores[0]));
  fails_of(job.start(1), "no such address");
  fails_of(job.start(2), "out of memory");
  job.end(1);
  CHECK(job.start(0).failure(*job.stores[0]) == "rank 1 failed: no such address");
  CHECK(StartStore(*job.stores[0], "another", 0, {0, 2}).failure(*job.stores[0]) == std::nullopt);
}

TEST_CASE("start: a store that is closed is rank 0's death") {
  Job job;
  job.end(0);
  StartStore start = job.start(1);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { start.set("k", "v"); }, [&] { start.get("k", kLong); }, [&] { start.add("n", 1); },
           [&] { start.remove("k"); }, [&] { start.connect_again(milliseconds(1000)); }}) {
    const auto begin = steady_clock::now();
    CHECK(message_of(call).find("a peer was lost or is late: rank 0 is dead: ") == 0);
    CHECK(steady_clock::now() - begin < milliseconds(5000));
  }
}

TEST_CASE("start: a watch ends a wait once a rank has died, and at the deadline") {
  Job job;
  std::atomic<int> stops = 0;
  StartStore start = job.start(0);
  {
    StartWatch watch(start, kLong, [&] { ++stops; });
    std::this_thread::sleep_for(milliseconds(500));
    watch.check_on();
    CHECK(stops == 0);
    job.end(2);
    CHECK(testing::eventually([&] { return stops == 1; }));
    CHECK(message_of([&] { watch.check_on(); }) ==
          "a peer was lost or is late: rank 2 is dead (gone so far: rank 2)");
  }
  CHECK(stops == 1);
  StartStore other(*job.stores[0], "other", 0, {0, 1});
  const StartWatch watch(other, milliseconds(300), [&] { ++stops; });
  CHECK(testing::eventually([&] { return stops == 2; }));
  CHECK(message_of([&] { watch.check_on(); }) == "not all have connected within 300 ms");
}

}  // namespace
}  // namespace lockstep

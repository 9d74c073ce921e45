// What goes wrong while a group over NCCL works: every rank must throw soon, say what happened, and
// leave nothing behind.
#include "lockstep/tests/distributed/nccl/nccl_ranks.h"
#include "lockstep/tests/support/eventually.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

namespace lockstep {
namespace {

using namespace testing;
using comm::NcclResult;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr milliseconds kTimeout{1500};
constexpr milliseconds kLong{60'000};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The error of a rank that calls until one comes; all calls that follow must throw, too.
void work_until_error(ProcessGroup& group) {
  std::string message;
  for (int step = 0; message.empty(); ++step) {
    try {
      const WorkPtr work = group.all_reduce(on_device(1));
      work->wait();
      work->wait_host(kLong);
    } catch (const CommError& error) {
      message = error.what();
    }
    if (step == 20) throw Error("nothing has failed");
  }
  CHECK_THROWS_AS(group.barrier(), CommError);
  CHECK_THROWS_AS(group.all_reduce(on_device(1)), CommError);
  throw CommError(message);
}

NcclOutcome fail(
    const NcclRanks& ranks, const std::function<void(NcclRank&)>& fn = [](NcclRank& rank) {
      work_until_error(*rank.group);
    }) {
  const SimDevice device({.compute = {}, .side = {{}, std::chrono::microseconds(200)}});
  const auto begin = steady_clock::now();
  const NcclOutcome outcome = run_nccl(ranks, fn);
  CHECK(steady_clock::now() - begin < seconds(30));
  CHECK(outcome.misuses == std::vector<std::string>{});
  CHECK(outcome.live == 0);
  return outcome;
}

TEST_CASE("nccl: a collective that hangs is ended when its time is up") {
  const auto outcome = fail({.group = {.timeout = kTimeout}, .fake = [](int rank) {
                               return FakeNcclOptions{.hang_at = rank == 1 ? 2 : -1};
                             }});
  for (const std::string& error : outcome.errors) {
    CHECK(contains(error, "all_reduce(sum, f32, 100 elements): a peer was lost or is late: "));
    CHECK(contains(error, "in collective 3"));
  }
  CHECK(contains(outcome.errors[0] + outcome.errors[1] + outcome.errors[2],
                 "not ended within 1500 ms"));
}

TEST_CASE("nccl: an error that NCCL finds is told by its rank, and handed on by the others") {
  const auto outcome = fail({.group = {.timeout = kLong}, .fake = [](int rank) {
                               return FakeNcclOptions{.error_at = rank == 1 ? 2 : -1};
                             }});
  CHECK(outcome.errors[1] == "all_reduce(sum, f32, 100 elements): NCCL: result 2 of the fake");
  for (const size_t rank : {0, 2}) {
    CHECK(contains(outcome.errors[rank], "a peer was lost or is late: in collective 3: rank 1"));
    CHECK(contains(outcome.errors[rank], "NCCL: result 2 of the fake"));
  }
}

TEST_CASE("nccl: an error of a remote rank blames it, with NCCL's words") {
  const auto outcome = fail({.group = {.timeout = kLong}, .fake = [](int rank) {
                               return FakeNcclOptions{.error_at = rank == 1 ? 2 : -1,
                                                      .error = NcclResult::kRemoteError};
                             }});
  CHECK(contains(outcome.errors[1], "a peer was lost or is late: in collective 3: "));
  CHECK(contains(outcome.errors[1], "(NCCL: result 6 of the fake)"));
  for (const size_t rank : {0, 2}) CHECK(contains(outcome.errors[rank], "rank 1"));
}

TEST_CASE("nccl: a call that is refused, and one that stays in progress for ever") {
  auto outcome = fail({.group = {.timeout = kLong}, .fake = [](int rank) {
                         return FakeNcclOptions{.refuse_at = rank == 2 ? 1 : -1};
                       }});
  CHECK(outcome.errors[2] == "all_reduce(sum, f32, 100 elements): NCCL: result 2 of the fake");
  CHECK(contains(outcome.errors[0], "rank 2"));
  outcome = fail({.group = {.timeout = kTimeout}, .fake = [](int rank) {
                    return FakeNcclOptions{.in_progress_at = rank == 2 ? 1 : -1};
                  }});
  for (const std::string& error : outcome.errors) CHECK(contains(error, "in collective 2"));
}

TEST_CASE("nccl: another size on one rank ends all when the time is up, with what each called") {
  const auto outcome = fail({.group = {.timeout = kTimeout}}, [](NcclRank& rank) {
    rank.group->all_reduce(on_device(1, rank.group->rank() == 1 ? 70 : 50))->wait_host(kLong);
  });
  CHECK(contains(outcome.errors[0], "all_reduce(sum, f32, 50 elements): "));
  CHECK(contains(outcome.errors[1], "all_reduce(sum, f32, 70 elements): "));
  CHECK(contains(outcome.errors[2], "a peer was lost or is late"));
}

TEST_CASE("nccl: a rank that takes no more part is named by those that wait for it") {
  std::atomic<int> ended{0};
  const auto outcome = fail({.group = {.timeout = kTimeout}}, [&](NcclRank& rank) {
    rank.group->barrier()->wait();
    if (rank.group->rank() == 2) {
      CHECK(eventually([&] { return ended == 2; }, milliseconds(20'000)));
      work_until_error(*rank.group);  // too late
    }
    try {
      work_until_error(*rank.group);
    } catch (const CommError&) {
      ++ended;
      throw;
    }
  });
  for (const size_t rank : {0, 1}) {
    CHECK(contains(outcome.errors[rank], "a peer was lost or is late: in collective 2"));
    CHECK(contains(outcome.errors[rank], "rank 2"));
  }
  CHECK(contains(outcome.errors[2], "a peer was lost or is late"));
}

TEST_CASE("nccl: the death of a rank ends the others long before their time is up") {
  std::atomic<int> ended{0};
  const auto outcome = fail({.group = {.timeout = kLong}}, [&](NcclRank& rank) {
    rank.group->barrier()->wait();
    if (rank.group->rank() == 2) {
      rank.store.kill();
      CHECK(eventually([&] { return ended == 2; }, milliseconds(20'000)));
      rank.group->abort("dead");
      return;
    }
    try {
      work_until_error(*rank.group);
    } catch (const CommError&) {
      ++ended;
      throw;
    }
  });
  for (const size_t rank : {0, 1}) {
    CHECK(contains(outcome.errors[rank], "all_reduce(sum, f32, 100 elements): a peer was lost"));
    CHECK(contains(outcome.errors[rank], "rank 2 is dead"));
  }
}

TEST_CASE("nccl: a rank that leaves, one that throws, one that aborts") {
  auto outcome = fail({.group = {.timeout = kLong}}, [](NcclRank& rank) {
    if (rank.group->rank() != 1) work_until_error(*rank.group);
  });
  for (const size_t rank : {0, 2}) CHECK(contains(outcome.errors[rank], "rank 1"));
  outcome = fail({.group = {.timeout = kLong}}, [](NcclRank& rank) {
    if (rank.group->rank() == 1) {
      const WorkPtr letter = rank.group->recv(on_device(0), 0);  // which nobody sends
      throw IoError("no such file");
    }
    work_until_error(*rank.group);
  });
  CHECK(outcome.errors[1] == "no such file");
  for (const size_t rank : {0, 2}) CHECK(contains(outcome.errors[rank], "rank 1"));
  outcome = fail({.group = {.timeout = kLong}}, [](NcclRank& rank) {
    if (rank.group->rank() == 1) rank.group->abort("enough");
    work_until_error(*rank.group);
  });
  CHECK(contains(outcome.errors[1], "the group has failed already: enough"));
  for (const size_t rank : {0, 2}) CHECK(contains(outcome.errors[rank], "enough"));
}

TEST_CASE("nccl: what a collective's stream waits for does not count as the collective's time") {
  const SimDevice device;
  const auto outcome = run_nccl({.group = {.timeout = milliseconds(1500)}}, [](NcclRank& rank) {
    SimDevice::current().enqueue([] { std::this_thread::sleep_for(seconds(3)); });
    rank.group->all_reduce(on_device(1))->wait_host(kLong);
  });
  for (const std::string& error : outcome.errors) CHECK(error == "");
}

TEST_CASE("nccl: a work that is waited for after its group has gone") {
  const auto outcome = fail(
      {.group = {.timeout = kTimeout}, .fake = [](int) { return FakeNcclOptions{.hang_at = 0}; }},
      [](NcclRank& rank) {
        const WorkPtr work = rank.group->all_reduce(on_device(1));
        rank.group.reset();
        check(work->done(), "it has not ended");
        work->wait();
      });
  for (const std::string& error : outcome.errors) CHECK(contains(error, "in collective 1"));
}

TEST_CASE("nccl: a farewell that hangs is cut short") {
  const SimDevice device;
  const auto begin = steady_clock::now();
  const auto outcome =
      run_nccl({.fake = [](int rank) { return FakeNcclOptions{.finalize_hangs = rank == 0}; }},
               [](NcclRank& rank) { rank.group->barrier()->wait(); });
  CHECK(steady_clock::now() - begin < seconds(30));
  for (const std::string& error : outcome.errors) CHECK(error == "");
  CHECK(outcome.live == 0);
}

}  // namespace
}  // namespace lockstep

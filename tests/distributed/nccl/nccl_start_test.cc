// How a group over NCCL begins, and how it fails to.
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/comm/nccl/nccl_library.h"
#include "lockstep/tests/distributed/nccl/nccl_ranks.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

namespace lockstep {
namespace {

using namespace testing;
using comm::NcclResult;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Every rank fails, within a time that hangs would pass, and leaves nothing behind.
NcclOutcome start(const NcclRanks& ranks) {
  const SimDevice device;
  const auto begin = steady_clock::now();
  const NcclOutcome outcome =
      run_nccl(ranks, [](NcclRank& rank) { rank.group->barrier()->wait(); });
  CHECK(steady_clock::now() - begin < std::chrono::seconds(20));
  CHECK(outcome.misuses == std::vector<std::string>{});
  CHECK(outcome.live == 0);
  return outcome;
}

TEST_CASE("nccl: a start that never ends is given up at the deadline, by all") {
  const auto outcome = start({.group = {.start_timeout = milliseconds(3000)}, .fake = [](int rank) {
                                return FakeNcclOptions{.init_hangs = rank == 1};
                              }});
  CHECK(contains(outcome.errors[1],
                 "make_nccl_group: barrier() [the start of NCCL]: a peer was lost or is late: in "
                 "collective 0, not ended within 3000 ms: "));
  CHECK(outcome.errors[0] != "");
  CHECK(outcome.errors[2] != "");
}

TEST_CASE("nccl: a rank that cannot start says why, and the others that it has failed, and why") {
  const auto outcome = start({.fake = [](int rank) {
    return FakeNcclOptions{
        .init_result = rank == 1 ? NcclResult::kSystemError : NcclResult::kSuccess,
        .init_hangs = rank != 1};
  }});
  CHECK(outcome.errors[1] ==
        "make_nccl_group: NCCL cannot connect the ranks: result 2 of the fake");
  for (const size_t rank : {0, 2}) {
    CHECK(contains(outcome.errors[rank], "a peer was lost"));
    CHECK(contains(outcome.errors[rank], "rank 1"));
    CHECK(contains(outcome.errors[rank], "result 2 of the fake"));
  }
}

TEST_CASE("nccl: a rank that dies on the way is named by every other one, and soon") {
  for (const bool at_init : {false, true}) {
    for (const int victim : {1, 2}) {
      CAPTURE(at_init);
      CAPTURE(victim);
      NcclRanks ranks{.fake = [&](int) { return FakeNcclOptions{.init_hangs = at_init}; }};
      (at_init ? ranks.at_init : ranks.at_claim) = [&](int rank, MortalStore& store) {
        if (rank == victim) store.kill();
      };
      const auto begin = steady_clock::now();
      const auto outcome = start(ranks);
      CHECK(steady_clock::now() - begin < milliseconds(5000));
      for (int rank = 0; rank < 3; ++rank) {
        if (rank == victim) continue;
        const std::string& error = outcome.errors[static_cast<size_t>(rank)];
        CAPTURE(error);
        CHECK(contains(error, "a peer was lost or is late"));
        CHECK(contains(error, "rank " + std::to_string(victim) + " is dead"));
      }
    }
  }
}

TEST_CASE("nccl: rank 0 cannot make the id") {
  const auto outcome = start({.fake = [](int rank) {
    return FakeNcclOptions{.id_result =
                               rank == 0 ? NcclResult::kInternalError : NcclResult::kSuccess};
  }});
  for (const std::string& error : outcome.errors) CHECK(contains(error, "result 3 of the fake"));
  CHECK(contains(outcome.errors[1], "rank 0: "));
}

TEST_CASE("nccl: a rank that never comes") {
  const auto outcome = start({.group = {.start_timeout = milliseconds(2000)},
                              .comes = [](int rank) { return rank != 2; }});
  for (const size_t rank : {0, 1}) {
    CHECK(contains(outcome.errors[rank], "make_nccl_group: not all ranks have come: "));
    CHECK(contains(outcome.errors[rank], "gpu/2"));
  }
}

TEST_CASE("nccl: two ranks on one GPU are named on every rank, unless they say that they mean it") {
  NcclRanks ranks{.ranks = 4, .fake = [](int rank) {
                    return FakeNcclOptions{.uuid = rank % 2 == 1 ? "GPU-a" : ""};
                  }};
  for (const std::string& error : start(ranks).errors) {
    CHECK(contains(error,
                   "make_nccl_group: ranks 1 and 3 use the same GPU, GPU-a, but NCCL wants "
                   "one for each: "));
  }
  ranks.host_id = [](int rank) { return std::to_string(rank); };
  for (const std::string& error : start(ranks).errors) CHECK(error == "");
}

TEST_CASE("nccl: wrong ranks are refused") {
  FakeNccl nccl;
  const auto library = nccl.rank();
  CHECK_THROWS_AS(make_nccl_group(*library, nullptr, "g", 2, 2), ArgumentError);
  CHECK_THROWS_AS(make_nccl_group(*library, nullptr, "g", -1, 2), ArgumentError);
}

std::string what_is_missing(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const UnsupportedError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("nccl: without the library one line says what is missing and what to do") {
  const std::string message = what_is_missing([] { comm::nccl_library().device_uuid(); });
#ifdef LOCKSTEP_CUDA
  if (message.empty()) {
    std::puts("SKIPPED: this machine has a GPU and NCCL");
    return;
  }
  CHECK(contains(message, "cuda"));
#else
  CHECK(message ==
        "backend nccl: this program was built without CUDA; build it with --config=cuda, or use "
        "the backend gloo");
  // Before the ranks meet: nobody listens there.
  setenv("RANK", "1", 1);
  setenv("WORLD_SIZE", "3", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "1", 1);
  for (const ProcessGroupOptions& options :
       {ProcessGroupOptions{.backend = "nccl"}, ProcessGroupOptions{.device = Device::cuda()}}) {
    CHECK(what_is_missing([&] { make_process_group(options); }) == message);
  }
#endif
}

}  // namespace
}  // namespace lockstep

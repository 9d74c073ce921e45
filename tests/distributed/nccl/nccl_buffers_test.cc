// Memory that is registered with NCCL: which, when, and that it never goes while NCCL knows it. The
// fake notes what is registered twice, deregistered while it is used or after the communicator
// ended, and what a communicator leaves behind.
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/distributed/comm/paired_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/nccl/nccl_ranks.h"
#include "lockstep/tests/distributed/reduce/small_net.h"

#include <doctest/doctest.h>
#include <omp.h>

namespace lockstep {
namespace {

using namespace testing;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kRanks = 3;
constexpr Delay kRandom{microseconds(0), microseconds(300)};
constexpr Delay kSlow{milliseconds(5), milliseconds(5)};
const NcclGroupOptions kRegisters{.register_buffers = true};

void check_clean(const NcclOutcome& outcome) {
  for (const std::string& error : outcome.errors) CHECK(error == "");
  CHECK(outcome.misuses == std::vector<std::string>{});
  CHECK(outcome.live == 0);
}

/// A step of two buckets in one arena; the sums are right.
void step(ProcessGroup& group, const Tensor& arena) {
  Tensor flat = arena;
  ops::fill(flat, 1);
  const WorkPtr first = group.all_reduce(arena.slice(0, 40));
  const WorkPtr second = group.all_reduce(arena.slice(40, 100));
  first->wait();
  second->wait();
  const auto values = ops::to_device(arena, Device::cpu()).to_vector<float>();
  check(values == std::vector<float>(100, static_cast<float>(group.size())), "wrong sums");
}

/// All ranks have done what stands before it.
void meet(ProcessGroup& group) { group.barrier()->wait(); }

size_t bytes_in_use() { return device_memory(Device::cuda()).allocator.stats().bytes_in_use; }

TEST_CASE("an arena is registered once, in its second step, and deregistered at the group's end") {
  for (const microseconds in_progress : {microseconds(0), microseconds(200)}) {
    const SimDevice device({.compute = kRandom, .side = kRandom});
    const NcclOutcome outcome = run_nccl(
        {.group = kRegisters,
         .fake = [&](int) { return FakeNcclOptions{.in_progress = in_progress}; }},
        [](NcclRank& rank) {
          const Tensor arena = on_device(0);
          step(*rank.group, arena);
          meet(*rank.group);
          check(rank.nccl.registered() == 0, "registered in the first step");
          meet(*rank.group);
          for (int i = 0; i < 4; ++i) step(*rank.group, arena);
          meet(*rank.group);
          check(rank.nccl.registered() == kRanks, rank.nccl.registered(), " are registered");
          meet(*rank.group);
        });
    check_clean(outcome);
    CHECK(outcome.registrations == kRanks);
  }
}

TEST_CASE("not unless it is asked for") {
  const SimDevice device;
  const NcclOutcome outcome = run_nccl({}, [](NcclRank& rank) {
    const Tensor arena = on_device(0);
    for (int i = 0; i < 3; ++i) step(*rank.group, arena);
  });
  check_clean(outcome);
  CHECK(outcome.registrations == 0);
}

TEST_CASE("what comes but once, and other collectives, are not registered nor kept") {
  const SimDevice device({.compute = kRandom, .side = kRandom});
  const NcclOutcome outcome = run_nccl({.ranks = 1, .group = kRegisters}, [](NcclRank& rank) {
    meet(*rank.group);
    const size_t before = bytes_in_use();
    for (int i = 0; i < 5; ++i) {
      rank.group->all_reduce(on_device(1, 1 << 20))->wait();
      const Tensor all = on_device(1);
      for (int again = 0; again < 2; ++again) rank.group->broadcast(all, 0)->wait();
    }
    meet(*rank.group);
    meet(*rank.group);
    check(bytes_in_use() == before, bytes_in_use() - before, " bytes are kept");
  });
  check_clean(outcome);
  CHECK(outcome.registrations == 0);
}

TEST_CASE("an arena that another replaces is deregistered before its memory goes") {
  const SimDevice device({.compute = kRandom, .side = kRandom});
  const NcclOutcome outcome = run_nccl({.ranks = 1, .group = kRegisters}, [](NcclRank& rank) {
    meet(*rank.group);
    const size_t before = bytes_in_use();
    Tensor arena = on_device(0);
    for (int i = 0; i < 2; ++i) step(*rank.group, arena);
    check(rank.nccl.registered() == 1, "not registered");
    // As the reducer does with gradients that were planned anew.
    Tensor next = on_device(0);
    arena.retire("stale");
    arena = Tensor();
    check(rank.nccl.registered() == 1 && bytes_in_use() > before, "gone while registered");
    for (int i = 0; i < 2; ++i) step(*rank.group, next);
    check(rank.nccl.registered() == 1, "wanted the new one alone");
    next = Tensor();
    meet(*rank.group);
    meet(*rank.group);
    check(rank.nccl.registered() == 0 && bytes_in_use() == before, "not let go");
  });
  check_clean(outcome);
  CHECK(outcome.registrations == 2);
}

TEST_CASE("what is in flight is not deregistered, though its owner has dropped it") {
  const SimDevice device({.compute = kSlow, .side = kSlow});
  const NcclOutcome outcome = run_nccl({.group = kRegisters}, [](NcclRank& rank) {
    Tensor arena = on_device(0);
    for (int i = 0; i < 2; ++i) step(*rank.group, arena);
    const Tensor other = on_device(1);
    rank.group->all_reduce(arena.slice(0, 40));
    rank.group->all_reduce(arena.slice(40, 100));
    arena = Tensor();
    for (int i = 0; i < 3; ++i) rank.group->broadcast(other, 0);
    meet(*rank.group);
    meet(*rank.group);
    meet(*rank.group);
    check(rank.nccl.registered() == 0, "not deregistered");
    meet(*rank.group);
  });
  check_clean(outcome);
  CHECK(outcome.registrations == kRanks);
}

TEST_CASE("after an abort the communicator is gone, and with it what was registered") {
  const SimDevice device({.compute = kRandom, .side = kRandom});
  const NcclOutcome outcome = run_nccl({.group = kRegisters}, [](NcclRank& rank) {
    Tensor arena = on_device(0);
    for (int i = 0; i < 2; ++i) step(*rank.group, arena);
    meet(*rank.group);
    rank.group->abort("enough");
    arena = Tensor();
    CHECK_THROWS_AS(rank.group->all_reduce(on_device(1)), CommError);
    rank.group.reset();
  });
  check_clean(outcome);
  CHECK(outcome.registrations == kRanks);
}

TEST_CASE("a collective that hangs on registered memory: the memory outlives the communicator") {
  const SimDevice device;
  const NcclOutcome outcome =
      run_nccl({.group = {.timeout = milliseconds(300), .register_buffers = true},
                .fake = [](int rank) { return FakeNcclOptions{.hang_at = rank == 1 ? 5 : -1}; }},
               [](NcclRank& rank) {
                 Tensor arena = on_device(0);
                 CHECK_THROWS_AS(
                     [&] {
                       for (int i = 0; i < 4; ++i) {
                         for (const auto [begin, end] : {std::pair(0, 40), std::pair(40, 100)}) {
                           rank.group->all_reduce(arena.slice(begin, end))
                               ->wait_host(std::chrono::seconds(20));
                         }
                       }
                     }(),
                     CommError);
                 arena = Tensor();
                 rank.group.reset();
               });
  check_clean(outcome);
  CHECK(outcome.registrations == kRanks);
}

TEST_CASE("what NCCL refuses to register ends the group with NCCL's words") {
  const SimDevice device;
  const NcclOutcome outcome = run_nccl(
      {.group = kRegisters,
       .fake =
           [](int) { return FakeNcclOptions{.register_result = comm::NcclResult::kSystemError}; }},
      [](NcclRank& rank) {
        const Tensor arena = on_device(0);
        step(*rank.group, arena);
        step(*rank.group, arena);
      });
  for (const std::string& error : outcome.errors) {
    CHECK_MESSAGE(error.find("result 2 of the fake") != std::string::npos, error);
  }
  CHECK(outcome.misuses == std::vector<std::string>{});
  CHECK(outcome.live == 0);
}

TEST_CASE("an NCCL that cannot register: one warning, and training goes on") {
  const SimDevice device;
  std::vector<std::string> warnings;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view line) { warnings.emplace_back(line); });
  const NcclOutcome outcome = run_nccl(
      {.group = kRegisters, .fake = [](int) { return FakeNcclOptions{.can_register = false}; }},
      [](NcclRank& rank) {
        const Tensor arena = on_device(0);
        for (int i = 0; i < 3; ++i) step(*rank.group, arena);
      });
  set_log_sink(before);
  check_clean(outcome);
  CHECK(outcome.registrations == 0);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0] ==
        "nccl: this NCCL cannot register buffers, which 2.19 or later can; it goes on without");
}

TEST_CASE("training registers the gradients once, and its results have the same bits") {
  std::vector<std::vector<Tensor>> replicas;
  for (const bool registers : {false, true}) {
    const SimDevice device({.compute = kRandom, .side = kRandom});
    std::vector<std::unique_ptr<ProcessGroup>> hosts = make_thread_groups(kRanks);
    std::vector<std::vector<Tensor>> all(kRanks);
    const NcclOutcome outcome =
        run_nccl({.group = {.register_buffers = registers}}, [&](NcclRank& rank) {
          omp_set_num_threads(1);
          const auto r = static_cast<size_t>(rank.group->rank());
          const auto group = make_paired_group(std::move(hosts[r]), std::move(rank.group));
          all[r] = train_small_net_on(*group, {.global_batch = 24,
                                               .steps = 6,
                                               .ddp = {.bucket_cap_mb = 0.001},
                                               .device = Device::cuda()});
        });
    check_clean(outcome);
    CHECK(outcome.registrations == (registers ? kRanks : 0));
    replicas.push_back(std::move(all[0]));
  }
  CHECK(largest_difference(replicas[0], replicas[1]) == 0);
}

}  // namespace
}  // namespace lockstep

// The group over NCCL where nothing goes wrong: results, times, memory, what NCCL is asked for.
#include "lockstep/tests/distributed/collectives.h"
#include "lockstep/tests/distributed/nccl/nccl_ranks.h"
#include "lockstep/tests/distributed/rank_groups.h"

#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/tensor/ops/copy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

namespace lockstep {
namespace {

using namespace testing;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kRanks = 3;
constexpr Delay kNone{};
constexpr Delay kRandom{microseconds(0), microseconds(300)};
constexpr Delay kSlow{milliseconds(5), milliseconds(5)};

void check_clean(const NcclOutcome& outcome) {
  for (const std::string& error : outcome.errors) CHECK(error == "");
  CHECK(outcome.misuses == std::vector<std::string>{});
  CHECK(outcome.live == 0);
}

std::vector<float> on_host(const Tensor& x) {
  return ops::to_device(x, Device::cpu()).to_vector<float>();
}

TEST_CASE("nccl: collectives, letters and splits, 1 to 4 ranks") {
  for (const microseconds in_progress : {microseconds(0), microseconds(200)}) {
    for (int n = 1; n <= 4; ++n) {
      CAPTURE(n);
      CAPTURE(in_progress.count());
      const SimDevice device({.compute = kRandom, .side = kRandom});
      check_clean(run_nccl(
          {.ranks = n, .fake = [&](int) { return FakeNcclOptions{.in_progress = in_progress}; }},
          [](NcclRank& rank) {
            check_collectives_on(Device::cuda(), *rank.group);
            check_ring_and_split_on(Device::cuda(), *rank.group);
          }));
    }
  }
}

TEST_CASE("nccl beside a group of the host: either kind of tensor, also in the parts of a split") {
  run_all_well("nccl", kRanks, [](GroupPtr group) {
    check(std::string(group->backend()) == "nccl", "backend");
    for (const Device device : {Device::cpu(), Device::cuda()}) {
      check_collectives_on(device, *group);
      check_ring_and_split_on(device, *group);
    }
  });
}

TEST_CASE("nccl: times are those of the transfer on its stream, by the host's clock") {
  const SimDevice device({.compute = kNone, .side = {milliseconds(30), milliseconds(30)}});
  check_clean(run_nccl({}, [](NcclRank& rank) {
    const int64_t before =
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    const Tensor x = on_device(1);
    const WorkPtr work = rank.group->all_reduce(x);
    check(work->times().start_ns == 0, "times before its end");
    work->wait_host(std::chrono::seconds(20));
    std::this_thread::sleep_for(milliseconds(50));
    const auto [start, finish] = work->times();
    const int64_t after =
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    constexpr int64_t kMs = 1'000'000;
    check(finish - start >= 30 * kMs, "took ", finish - start);
    check(start >= before - 20 * kMs && finish <= after - 30 * kMs, "not the host's clock");
  }));
}

TEST_CASE("nccl: memory freed on the host may still be used by the collective, held or dropped") {
  for (const bool drop : {true, false}) {
    const SimDevice device({.compute = kNone, .side = kSlow});
    check_clean(run_nccl({}, [&](NcclRank& rank) {
      const Tensor sum = Tensor::empty({3 * 64}, DType::kF32, Device::cuda());
      WorkPtr work = rank.group->all_gather(sum, on_device(rank.group->rank(), 64));
      on_device(77, 64);  // must not be given the same memory
      if (drop) {
        work = rank.group->barrier();  // behind it
      }
      work->wait_host(std::chrono::seconds(20));
      const auto values = on_host(sum);
      check(values[0] == 0 && values[64] == 1 && values[191] == 2, "wrong values");
    }));
  }
}

TEST_CASE("nccl: destroying a group waits for what is in flight") {
  const SimDevice device({.compute = kSlow, .side = kSlow});
  check_clean(run_nccl({}, [](NcclRank& rank) {
    const Tensor x = on_device(1);
    const WorkPtr work = rank.group->all_reduce(x);
    rank.group.reset();
    check(work->done(), "not done");
    work->wait();
    check(on_host(x) == std::vector<float>(100, 3.0F), "wrong sum");
  }));
}

TEST_CASE("nccl: what it is asked for: thread blocks, and names of what the profiler shows") {
  const SimDevice device;
  const NcclOutcome outcome = run_nccl({.group = {.max_ctas = 8}}, [](NcclRank& rank) {
    const OpLabel label("bucket 5");
    rank.group->all_reduce(on_device(1))->wait();
  });
  check_clean(outcome);
  CHECK(outcome.max_ctas == 8);
  CHECK(std::count(outcome.ranges.begin(), outcome.ranges.end(), "bucket 5") == kRanks);
}

TEST_CASE("nccl: host tensors are refused, as are wrong arguments") {
  const SimDevice device;
  check_clean(run_nccl({}, [](NcclRank& rank) {
    ProcessGroup& g = *rank.group;
    CHECK_THROWS_WITH_AS(g.all_reduce(Tensor::zeros({4}, DType::kF32)),
                         "all_reduce: wanted a tensor on cuda, got one on the host", ArgumentError);
    CHECK_THROWS_AS(g.all_reduce(Tensor()), ArgumentError);
    CHECK_THROWS_AS(g.broadcast(on_device(1), 3), ArgumentError);
    CHECK_THROWS_AS(g.all_gather(on_device(1), on_device(1)), ArgumentError);
    g.barrier()->wait();
  }));
}

}  // namespace
}  // namespace lockstep

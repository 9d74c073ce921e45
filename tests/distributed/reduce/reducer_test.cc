#include "lockstep/distributed/reduce/reducer.h"

#include "lockstep/autograd/record.h"
#include "lockstep/base/timeline.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tests/distributed/reduce/toy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using testing::kAveraging;
using testing::random_delay;
using testing::Toy;

TEST_CASE("every mode, cap and number of ranks gives the mean") {
  for (int ranks : {1, 2, 3, 4}) {
    for (DdpMode mode : kAveraging) {
      for (double cap : {0.0, 200.0 / 1024 / 1024, 25.0}) {
        CAPTURE(ranks);
        CAPTURE(name_of(mode));
        CAPTURE(cap);
        spawn(ranks,
              [&](ProcessGroup& group) {
                Toy toy(group.rank());
                Reducer reducer(toy.params, plan_buckets(toy.specs, {cap, cap}), group,
                                {.mode = mode});
                for (int step = 0; step < 3; ++step) {
                  toy.zero_grad();
                  toy.loss(step).backward();
                  toy.expect_all(ranks, {step});
                }
              },
              {.delay = random_delay});
      }
    }
  }
}

TEST_CASE("local leaves each rank its own gradients") {
  spawn(3, [](ProcessGroup& group) {
    Toy toy(group.rank());
    Reducer reducer(toy.params, plan_buckets(toy.specs, {}), group, {.mode = DdpMode::kLocal});
    toy.loss(0).backward();
    const auto mine = toy.params[0].parameter.grad();
    if (testing::relative_difference(*mine, Toy::coefficients(toy.specs[0], group.rank(), 0)) >
        testing::kTolerance) {
      throw Error("local gradient changed");
    }
  });
}

TEST_CASE("ranks that complete their gradients in different orders still reduce like with like") {
  // All buckets have one size, so a launch by arrival would not fail but add unlike gradients.
  for (int round = 0; round < 20; ++round) {
    spawn(3,
          [&](ProcessGroup& group) {
            Toy toy(group.rank(), /*mixed=*/false);
            Reducer reducer(toy.params, plan_buckets(toy.specs, {0, 0}), group,
                            {.mode = DdpMode::kOverlapped});
            std::vector<int> order = Toy::all();
            const PhiloxRange dice{static_cast<uint64_t>(round), static_cast<uint64_t>(group.rank())
                                                                     << 20};
            for (size_t i = order.size() - 1; i > 0; --i) {
              std::swap(order[i], order[dice.bits(static_cast<int64_t>(i)) % (i + 1)]);
            }
            toy.loss(round, order).backward();
            toy.expect_all(3, {round});
          },
          {.delay = random_delay});
  }
}

TEST_CASE("accumulation: only the synchronised backward reduces, and then all that was added up") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    std::atomic<int> operations[3] = {};  // by rank
    const auto count = [&](int rank, int64_t) { ++operations[rank]; };
    spawn(3,
          [&](ProcessGroup& group) {
            Toy toy(group.rank());
            Reducer reducer(toy.params, plan_buckets(toy.specs, {}), group, {.mode = mode});
            reducer.set_synchronize(false);
            toy.loss(0).backward();
            toy.loss(1).backward();
            if (operations[group.rank()] != 0)
              throw Error("communicated while synchronisation was off");
            reducer.set_synchronize(true);
            toy.loss(2).backward();
            toy.expect_all(3, {0, 1, 2});
          },
          {.delay = count});
  }
}

TEST_CASE(
    "gradients are views of the buckets before and after zero_grad, and are written in place") {
  spawn(2, [](ProcessGroup& group) {
    Toy toy(group.rank(), /*mixed=*/false);
    Reducer reducer(toy.params, plan_buckets(toy.specs, {}), group, {.mode = DdpMode::kOverlapped});
    const uint64_t copied = gradient_bytes_copied();
    const std::byte* where = nullptr;
    for (int step = 0; step < 2; ++step) {
      toy.zero_grad();
      toy.loss(step).backward();
      const Tensor grad = *toy.params[3].parameter.grad();
      if (!grad.shares_memory(*toy.params[0].parameter.grad())) throw Error("not one arena");
      if (where != nullptr && where != grad.raw()) throw Error("the gradient moved");
      where = grad.raw();
    }
    if (gradient_bytes_copied() != copied) throw Error("a gradient was copied");
  });
}

TEST_CASE(
    "a parameter without a gradient ends the same backward with its name, and frees the others") {
  for (DdpMode mode : kAveraging) {
    std::mutex mutex;
    std::vector<std::string> messages(3);
    const auto run = [&](ProcessGroup& group) {
      Toy toy(group.rank());
      Reducer reducer(toy.params, plan_buckets(toy.specs, {0, 0}), group, {.mode = mode});
      std::vector<int> order = Toy::all();
      if (group.rank() == 1) std::erase(order, 4);
      try {
        toy.loss(0, order).backward();
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        messages[static_cast<size_t>(group.rank())] = error.what();
      }
    };
    spawn(3, run, {.timeout = std::chrono::seconds(20)});
    CHECK(messages[1].find("rank 1") != std::string::npos);
    for (const std::string& message : messages) CHECK(message.find("p4") != std::string::npos);
  }
}

TEST_CASE("a backward that ends with an error leaves no reduction in flight") {
  std::atomic<bool> in_flight = false;
  const auto slowly = [&](int rank, int64_t) {
    if (rank != 1) return;
    in_flight = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    in_flight = false;
  };
  spawn(2,
        [&](ProcessGroup& group) {
          Toy toy(group.rank());
          Reducer reducer(toy.params, plan_buckets(toy.specs, {0, 0}), group,
                          {.mode = DdpMode::kOverlapped});
          HookHandle failing;
          if (group.rank() == 1) {  // while an earlier bucket travels, and before the last is ready
            failing = toy.params[1].parameter.on_grad_ready([&](const Variable&) {
              while (!in_flight) std::this_thread::yield();
              throw Error("stop");
            });
          }
          try {
            toy.loss(0).backward();
          } catch (const Error&) {
            if (group.rank() == 1 && in_flight) throw Error("memory is still being reduced");
            return;
          }
          throw Error("the error went unnoticed");
        },
        {.delay = slowly});
}

TEST_CASE("a backward that an exception cuts short leaves the next one right") {
  spawn(3,
        [](ProcessGroup& group) {
          Toy toy(group.rank());
          Reducer reducer(toy.params, plan_buckets(toy.specs, {0, 0}), group,
                          {.mode = DdpMode::kOverlapped});
          // Every rank fails at the same parameter, after some buckets were launched.
          HookHandle failing =
              toy.params[5].parameter.on_grad_ready([](const Variable&) { throw Error("stop"); });
          bool failed = false;
          try {
            toy.loss(0).backward();
          } catch (const Error&) {
            failed = true;
          }
          if (!failed) throw Error("the hook's exception was lost");
          failing.reset();
          toy.zero_grad();
          toy.loss(1).backward();
          toy.expect_all(3, {1});
        },
        {.delay = random_delay});
}

TEST_CASE("the timeline holds one transfer for each bucket, with its bytes") {
  spawn(2, [](ProcessGroup& group) {
    Timeline timeline;
    Toy toy(group.rank());
    const BucketPlan plan = plan_buckets(toy.specs, {0, 200.0 / 1024 / 1024});
    Reducer reducer(toy.params, plan, group, {.timeline = &timeline});
    timeline.begin_step(0);
    toy.loss(0).backward();
    const StepSummary summary = timeline.end_step();
    int64_t bytes = 0;
    for (const Bucket& bucket : plan.buckets) bytes += bucket.bytes;
    if (summary.comm_bytes != bytes)
      throw Error(str("recorded ", summary.comm_bytes, " bytes of ", bytes));
    size_t transfers = 0;
    const StepEvents events = timeline.kept().back();
    for (const auto& event : events.events) {
      transfers += event.span.activity == Activity::kCommunication;
    }
    if (transfers != plan.buckets.size())
      throw Error(str(transfers, " transfers of ", plan.buckets.size()));
  });
}

TEST_CASE("a plan that does not hold every parameter once is refused") {
  const auto group = make_single_group();
  Toy toy(0);
  BucketPlan lacking = plan_buckets(toy.specs, {});
  lacking.buckets.back().params.pop_back();
  CHECK_THROWS_WITH_AS(Reducer(toy.params, lacking, *group, {.mode = DdpMode::kNaive}),
                       doctest::Contains("lacks"), ArgumentError);
  BucketPlan twice = plan_buckets(toy.specs, {});
  twice.buckets.back().params.push_back(twice.buckets.back().params.back());
  CHECK_THROWS_WITH_AS(Reducer(toy.params, twice, *group, {.mode = DdpMode::kNaive}),
                       doctest::Contains("twice"), ArgumentError);
  for (int stranger : {-1, Toy::kParams}) {
    BucketPlan more = plan_buckets(toy.specs, {});
    more.buckets.back().params.push_back(stranger);
    CHECK_THROWS_AS(Reducer(toy.params, more, *group, {.mode = DdpMode::kNaive}), ArgumentError);
  }
}

}  // namespace
}  // namespace lockstep

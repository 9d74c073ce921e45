#include "lockstep/distributed/reduce/reducer.h"

#include "lockstep/autograd/record.h"
#include "lockstep/base/timeline.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/random.h"
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

constexpr DdpMode kAveraging[] = {DdpMode::kNaive, DdpMode::kBucketed, DdpMode::kOverlapped};

/// total + sum(coefficients * parameter): a linear loss, whose gradients are the coefficients,
/// whatever the values.
Variable add_term(const Variable& total, const Variable& parameter, const Tensor& coefficients) {
  return record("add_term", Tensor::zeros({}, DType::kF64), {total, parameter},
                [coefficients](const Tensor& grad, GradSink& sink) {
                  if (sink.wants(0)) sink.give(0, grad);
                  Dest dest = sink.dest(1);
                  if (!dest.accumulate) ops::fill(dest.out, 0.0);
                  ops::add_scaled(coefficients, grad.item(), dest.out);
                });
}

/// Parameters of several sizes and both dtypes, whose gradients on each rank are known.
struct Toy {
  explicit Toy(int rank, bool mixed = true) : rank(rank) {
    for (int i = 0; i < kParams; ++i) {
      const DType dtype = mixed && i % 3 == 1 ? DType::kF32 : DType::kF64;
      const Shape shape = mixed ? Shape{i + 1, 3} : Shape{5};
      parameters.push_back({"p" + std::to_string(i), Variable(Tensor::zeros(shape, dtype), true)});
      specs.push_back({parameters.back().name, shape, dtype});
    }
  }

  static Tensor coefficients(const ParamSpec& spec, int rank, int step) {
    const uint64_t seed =
        std::hash<std::string>{}(spec.name) + static_cast<uint64_t>(1000 * rank + step);
    return testing::random_tensor(spec.shape, seed, -1, 1, spec.dtype);
  }

  /// The gradient of the mean loss over `ranks` ranks, summed over `steps`.
  Tensor expected(int param, int ranks, const std::vector<int>& steps) const {
    const ParamSpec& spec = specs[static_cast<size_t>(param)];
    Tensor sum = Tensor::zeros(spec.shape, DType::kF64);
    for (int r = 0; r < ranks; ++r) {
      for (int step : steps)
        ops::add_scaled(ops::cast(coefficients(spec, r, step), DType::kF64), 1.0 / ranks, sum);
    }
    return sum;
  }

  /// Uses the parameters in the given order; backward completes them in the reverse one.
  Variable loss(int step, const std::vector<int>& order) const {
    Variable total(Tensor::zeros({}, DType::kF64));
    for (int i : order) {
      const auto k = static_cast<size_t>(i);
      total = add_term(total, parameters[k].parameter, coefficients(specs[k], rank, step));
    }
    return total;
  }
  Variable loss(int step) const { return loss(step, in_order()); }

  static std::vector<int> in_order() {
    std::vector<int> order(kParams);
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  /// The largest difference of any gradient from what is expected.
  double difference(int ranks, const std::vector<int>& steps) const {
    double worst = 0;
    for (int i = 0; i < kParams; ++i) {
      const auto grad = parameters[static_cast<size_t>(i)].parameter.grad();
      if (!grad) return 1e9;
      worst = std::max(worst, testing::relative_difference(*grad, expected(i, ranks, steps)));
    }
    return worst;
  }

  void zero_grad() {
    for (auto& parameter : parameters) parameter.parameter.zero_grad();
  }

  static constexpr int kParams = 9;
  int rank;
  std::vector<NamedParameter> parameters;
  std::vector<ParamSpec> specs;
};

// The parameters are f32 and f64, compared with an f64 sum: f32's rounding of a few additions.
constexpr double kTolerance = 1e-6;

/// Sleeps up to a millisecond, differently for each rank and operation.
void random_delay(int rank, int64_t sequence) {
  const PhiloxRange range{7, static_cast<uint64_t>(rank) << 32};
  std::this_thread::sleep_for(std::chrono::microseconds(range.bits(sequence) % 1000));
}

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
                Reducer reducer(toy.parameters, plan_buckets(toy.specs, {cap, cap}), group,
                                {.mode = mode});
                for (int step = 0; step < 3; ++step) {
                  toy.zero_grad();
                  toy.loss(step).backward();
                  const double difference = toy.difference(ranks, {step});
                  if (difference > kTolerance)
                    throw Error(str("step ", step, " differs by ", difference));
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
    Reducer reducer(toy.parameters, plan_buckets(toy.specs, {}), group, {.mode = DdpMode::kLocal});
    toy.loss(0).backward();
    const auto mine = toy.parameters[0].parameter.grad();
    if (testing::relative_difference(*mine, Toy::coefficients(toy.specs[0], group.rank(), 0)) >
        kTolerance) {
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
            Reducer reducer(toy.parameters, plan_buckets(toy.specs, {0, 0}), group,
                            {.mode = DdpMode::kOverlapped});
            std::vector<int> order = Toy::in_order();
            const PhiloxRange dice{static_cast<uint64_t>(round), static_cast<uint64_t>(group.rank())
                                                                     << 20};
            for (size_t i = order.size() - 1; i > 0; --i) {
              std::swap(order[i], order[dice.bits(static_cast<int64_t>(i)) % (i + 1)]);
            }
            toy.loss(round, order).backward();
            const double difference = toy.difference(3, {round});
            if (difference > kTolerance) throw Error(str("differs by ", difference));
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
            Reducer reducer(toy.parameters, plan_buckets(toy.specs, {}), group, {.mode = mode});
            reducer.set_synchronize(false);
            toy.loss(0).backward();
            toy.loss(1).backward();
            if (operations[group.rank()] != 0)
              throw Error("communicated while synchronisation was off");
            reducer.set_synchronize(true);
            toy.loss(2).backward();
            const double difference = toy.difference(3, {0, 1, 2});
            if (difference > kTolerance) throw Error(str("differs by ", difference));
          },
          {.delay = count});
  }
}

TEST_CASE(
    "gradients are views of the buckets before and after zero_grad, and are written in place") {
  spawn(2, [](ProcessGroup& group) {
    Toy toy(group.rank(), /*mixed=*/false);
    Reducer reducer(toy.parameters, plan_buckets(toy.specs, {}), group,
                    {.mode = DdpMode::kOverlapped});
    const uint64_t copied = gradient_bytes_copied();
    const std::byte* where = nullptr;
    for (int step = 0; step < 2; ++step) {
      toy.zero_grad();
      toy.loss(step).backward();
      const Tensor grad = *toy.parameters[3].parameter.grad();
      if (!grad.shares_memory(*toy.parameters[0].parameter.grad())) throw Error("not one arena");
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
      Reducer reducer(toy.parameters, plan_buckets(toy.specs, {0, 0}), group, {.mode = mode});
      std::vector<int> order = Toy::in_order();
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
          Reducer reducer(toy.parameters, plan_buckets(toy.specs, {0, 0}), group,
                          {.mode = DdpMode::kOverlapped});
          HookHandle failing;
          if (group.rank() == 1) {  // while an earlier bucket travels, and before the last is ready
            failing = toy.parameters[1].parameter.on_grad_ready([&](const Variable&) {
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
          Reducer reducer(toy.parameters, plan_buckets(toy.specs, {0, 0}), group,
                          {.mode = DdpMode::kOverlapped});
          // Every rank fails at the same parameter, after some buckets were launched.
          HookHandle failing = toy.parameters[5].parameter.on_grad_ready(
              [](const Variable&) { throw Error("stop"); });
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
          const double difference = toy.difference(3, {1});
          if (difference > kTolerance) throw Error(str("differs by ", difference));
        },
        {.delay = random_delay});
}

TEST_CASE("the timeline holds one transfer for each bucket, with its bytes") {
  spawn(2, [](ProcessGroup& group) {
    Timeline timeline;
    Toy toy(group.rank());
    const BucketPlan plan = plan_buckets(toy.specs, {0, 200.0 / 1024 / 1024});
    Reducer reducer(toy.parameters, plan, group, {.timeline = &timeline});
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
  CHECK_THROWS_WITH_AS(Reducer(toy.parameters, lacking, *group, {.mode = DdpMode::kNaive}),
                       doctest::Contains("lacks"), ArgumentError);
  BucketPlan twice = plan_buckets(toy.specs, {});
  twice.buckets.back().params.push_back(twice.buckets.back().params.back());
  CHECK_THROWS_WITH_AS(Reducer(toy.parameters, twice, *group, {.mode = DdpMode::kNaive}),
                       doctest::Contains("twice"), ArgumentError);
  for (int stranger : {-1, Toy::kParams}) {
    BucketPlan more = plan_buckets(toy.specs, {});
    more.buckets.back().params.push_back(stranger);
    CHECK_THROWS_AS(Reducer(toy.parameters, more, *group, {.mode = DdpMode::kNaive}),
                    ArgumentError);
  }
}

}  // namespace
}  // namespace lockstep

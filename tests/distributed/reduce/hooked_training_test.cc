// DataParallel with a communication hook: the same gradients as without, in every mode, while
// buckets are planned anew and parameters are unused; and how it ends when the hook fails.
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/reduce/hooks/registry.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

#include <chrono>
#include <set>

namespace lockstep {
namespace {

using testing::kAveraging;
using testing::on_ranks;
using testing::Toy;

constexpr int kRanks = 3;
constexpr double kSmallCap = 300.0 / 1024 / 1024;

/// The plain sum, which remembers what it was shown of a step.
class Witness final : public CommHook {
 public:
  explicit Witness(int fails_in_step = -1) : fails_in_step_(fails_in_step) {}

  int64_t reduce(const GradBucket& bucket, ProcessGroup& group) override {
    if (bucket.step == fails_in_step_) throw IoError("the hook has had enough");
    if (bucket.step != step) {
      step = bucket.step;
      names.clear();
      lasts = buckets = 0;
    }
    check(bucket.index >= buckets, "bucket ", bucket.index, " comes late");
    buckets = bucket.index + 1;
    for (const auto& param : bucket.params) {
      check(param.grad.shares_memory(bucket.flat), "no view of the bucket");
      check(names.insert(param.name).second, param.name, " comes twice");
    }
    check(lasts == 0, "a bucket after the last");
    lasts += bucket.last;
    group.all_reduce(bucket.flat)->wait();
    return 0;
  }

  int64_t step = -1;
  int buckets = 0;
  int lasts = 0;
  std::set<std::string> names;

 private:
  int fails_in_step_;
};

TEST_CASE("topk keeps what it holds back of a parameter that nobody uses in a step") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank(), /*mixed=*/false);
    const auto hook = parse_comm_hook("topk:ratio=0.2");  // one element of five
    DataParallel ddp(toy, group,
                     {.find_unused_parameters = true, .reduction = run_comm_hook(hook, group)});
    toy.loss(0).backward();
    const auto residual = [&] {
      for (const NamedTensor& state : hook->state()) {
        if (state.name == "residual.p3") return state.tensor.to_vector<double>();
      }
      throw Error("no residual");
    };
    const std::vector<double> before = residual();
    for (int step = 1; step < 4; ++step) {
      toy.zero_grad();
      toy.loss(step, Toy::all_but({3})).backward();
      check(!toy.grad(3), "a gradient that nobody has");
      check(residual() == before, "what was held back is lost");
    }
    toy.zero_grad();
    toy.loss(4).backward();
    check(toy.grad(3).has_value() && residual() != before, "nothing came of it later");
  });
}

TEST_CASE("a hook that sums gives the means, and sees each parameter of each step once") {
  for (DdpMode mode : kAveraging) {
    for (const double cap_mb : {0.0, kSmallCap, 25.0}) {
      CAPTURE(name_of(mode));
      CAPTURE(cap_mb);
      on_ranks(kRanks, [&](ProcessGroup& group) {
        const auto hook = std::make_shared<Witness>();
        Toy toy(group.rank());
        DataParallel ddp(toy, group,
                         {.mode = mode,
                          .bucket_cap_mb = cap_mb,
                          .first_bucket_cap_mb = cap_mb,
                          .find_unused_parameters = true,
                          .reduction = run_comm_hook(hook, group)});
        for (int step = 0; step < 4; ++step) {
          toy.zero_grad();
          // Another order than the plan's, so that buckets are planned anew after the first step.
          std::vector<int> order = step == 3 ? Toy::all_but({2, 5}) : Toy::all();
          std::swap(order[0], order[3]);
          toy.loss(step, order).backward();
          if (step == 3) {
            toy.expect_all_but({2, 5}, kRanks, step);
            for (int unused : {2, 5}) toy.expect(unused, kRanks, {});
          } else {
            toy.expect_all(kRanks, {step});
          }
          check(hook->step == step, "step ", hook->step);
          check(hook->names.size() == Toy::kParams, hook->names.size(), " parameters");
          check(hook->lasts == 1, hook->lasts, " last buckets");
          check(hook->buckets == static_cast<int>(ddp.plan().buckets.size()) || step == 0,
                hook->buckets, " buckets");
        }
      });
    }
  }
}

TEST_CASE("accumulation, and a hook for the synchronised backward alone") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    const auto hook = std::make_shared<Witness>();
    Toy toy(group.rank());
    DataParallel ddp(toy, group, {.reduction = run_comm_hook(hook, group)});
    for (int step = 0; step < 3; ++step) {
      toy.zero_grad();
      {
        const NoSync no_sync = ddp.no_sync();
        toy.loss(2 * step).backward();
      }
      check(hook->step == step - 1, "reduced under no_sync");
      toy.loss(2 * step + 1).backward();
      toy.expect_all(kRanks, {2 * step, 2 * step + 1});
    }
  });
}

TEST_CASE("a hook that throws on one rank ends backward on every rank, at once") {
  const auto start = std::chrono::steady_clock::now();
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Toy toy(group.rank());
      DataParallel ddp(toy, group,
                       {.mode = mode,
                        .bucket_cap_mb = kSmallCap,
                        .first_bucket_cap_mb = kSmallCap,
                        .reduction = run_comm_hook(
                            std::make_shared<Witness>(group.rank() == 1 ? 2 : -1), group)});
      for (int step = 0; step < 2; ++step) {
        toy.zero_grad();
        toy.loss(step).backward();
        toy.expect_all(kRanks, {step});
      }
      toy.zero_grad();
      const std::string message = testing::thrown_by([&] { toy.loss(2).backward(); });
      check(message.find("the hook has had enough") != message.npos, "got: ", message);
      // And the next one does not hang either.
      toy.zero_grad();
      check(testing::thrown_by([&] { toy.loss(3).backward(); }) != "", "went on");
    });
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

}  // namespace
}  // namespace lockstep

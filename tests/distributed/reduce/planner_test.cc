// Buckets by a planner and caps of the user's own, through DataParallel.
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

#include <atomic>

namespace lockstep {
namespace {

using testing::kAveraging;
using testing::on_ranks;
using testing::thrown_by;
using testing::Toy;

constexpr int kRanks = 3;
constexpr double kByte = 1.0 / 1024 / 1024;

/// Three steps with these options are right in every mode; returns the sizes of the buckets.
std::vector<size_t> train(DdpOptions options, bool mixed = false) {
  std::vector<size_t> sizes;
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    options.mode = mode;
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Toy toy(group.rank(), mixed);
      DataParallel ddp(toy, group, options);
      for (int step = 0; step < 3; ++step) {
        toy.zero_grad();
        toy.loss(step, step == 0 ? std::vector<int>{4, 0, 8, 2, 6, 1, 7, 3, 5} : Toy::all())
            .backward();
        toy.expect_all(kRanks, {step});
      }
      if (group.rank() != 0) return;
      std::vector<size_t> these;
      for (const Bucket& bucket : ddp.plan().buckets) {
        these.push_back(bucket.params.size());
        for (int i : bucket.params) {
          check(toy.specs[static_cast<size_t>(i)].dtype == bucket.dtype, "two dtypes in a bucket");
        }
      }
      if (mode == DdpMode::kNaive) {
        check(these == std::vector<size_t>(Toy::kParams, 1), "naive: a gradient is not alone");
      } else {
        sizes = these;
      }
    });
  }
  return sizes;
}

// A gradient of the plain toy has 40 bytes.
TEST_CASE("caps: first of one byte, last, a list, tensors over the cap, 0") {
  using Sizes = std::vector<size_t>;
  CHECK(train({.bucket_cap_mb = 120 * kByte, .first_bucket_cap_mb = kByte}) == Sizes{1, 3, 3, 2});
  CHECK(train({.bucket_cap_mb = 25,
               .first_bucket_cap_mb = kByte,
               .last_bucket_cap_mb = 80 * kByte}) == Sizes{1, 6, 2});
  CHECK(train({.bucket_cap_mb = 0, .bucket_caps_mb = {160 * kByte, 40 * kByte, 80 * kByte}}) ==
        Sizes{4, 1, 2, 2});
  CHECK(train({.bucket_cap_mb = 7 * kByte, .first_bucket_cap_mb = 39 * kByte}) == Sizes(9, 1));
  CHECK(train({.bucket_cap_mb = 0, .first_bucket_cap_mb = 0}) == Sizes(9, 1));
  CHECK(train({.bucket_cap_mb = 0}) == Sizes(9, 1));  // also the first
  CHECK(train({}) == Sizes{9});
}

TEST_CASE("mixed dtypes: a dtype per bucket, one launch order") {
  for (double cap : {0.0, kByte, 100 * kByte, 25.0}) {
    CAPTURE(cap);
    const auto sizes = train({.bucket_cap_mb = cap, .first_bucket_cap_mb = cap}, /*mixed=*/true);
    if (cap == 25.0) CHECK(sizes.size() == 2);
    if (cap <= kByte) CHECK(sizes.size() == 9);
  }
}

TEST_CASE("dtypes that no gradient can have are refused by name") {
  CHECK_THROWS_WITH_AS(Variable(Tensor::zeros({2}, DType::kI64), true), doctest::Contains("i64"),
                       ArgumentError);
  Variable half(Tensor::zeros({2}, DType::kF16));
  CHECK_THROWS_WITH_AS(half.set_requires_grad(true), doctest::Contains("f16"), ArgumentError);
  CHECK_FALSE(half.requires_grad());
  // As a parameter that is not trained it travels from rank 0, and is in no bucket.
  struct WithIndex : Module {
    explicit WithIndex(int rank)
        : index(Tensor::from<int64_t>({rank + 7}, {1})),
          weight(Tensor::zeros({2}, DType::kF32), true) {
      register_parameter("index", index);
      register_parameter("weight", weight);
    }
    Variable index, weight;
  };
  on_ranks(kRanks, [](ProcessGroup& group) {
    WithIndex module(group.rank());
    DataParallel ddp(module, group);
    check(module.index.data().item() == 7, "rank 0's index did not arrive");
    check(ddp.param_specs().size() == 1, "an index is in a bucket");
  });
}

/// Odd and even positions apart.
BucketPlan odd_and_even(std::span<const ParamSpec> params, const BucketCaps&) {
  BucketPlan plan;
  for (int parity : {1, 0}) {
    Bucket bucket{DType::kF64, {}, 0};
    for (int i = static_cast<int>(params.size()) - 1; i >= 0; --i) {
      if (i % 2 != parity) continue;
      bucket.params.push_back(i);
      bucket.bytes += params[static_cast<size_t>(i)].bytes();
    }
    plan.buckets.push_back(bucket);
  }
  return plan;
}

TEST_CASE("a planner of the user's own, which only rank 0 asks") {
  std::atomic<int> asked = 0;
  const auto planner = [&](std::span<const ParamSpec> params, const BucketCaps& caps) {
    ++asked;
    check(caps.rest_mb == 3, "other caps");
    return odd_and_even(params, caps);
  };
  CHECK(train({.bucket_cap_mb = 3, .planner = planner}) == std::vector<size_t>{4, 5});
  CHECK(asked == 2 * 3);  // at first and after the first backward, in three modes
}

TEST_CASE("a planner that throws, or plans badly, is an error on every rank, at once or later") {
  for (const bool bad_plan : {false, true}) {
    for (const bool later : {false, true}) {
      CAPTURE(bad_plan);
      CAPTURE(later);
      on_ranks(kRanks, [&](ProcessGroup& group) {
        int asked = 0;
        const auto planner = [&](std::span<const ParamSpec> params, const BucketCaps& caps) {
          BucketPlan plan = odd_and_even(params, caps);
          if (asked++ == (later ? 1 : 0)) {
            if (!bad_plan) throw Error("no plan today");
            plan.buckets[0].params[0] = plan.buckets[1].params[0];
          }
          return plan;
        };
        Toy toy(group.rank(), /*mixed=*/false);
        std::optional<DataParallel> ddp;
        const std::string text = thrown_by([&] {
          ddp.emplace(toy, group, DdpOptions{.planner = planner});
          toy.loss(0, {4, 0, 8, 2, 6, 1, 7, 3, 5}).backward();
        });
        const char* wanted = group.rank() != 0 ? "rank 0 could not plan"
                             : bad_plan        ? "twice"
                                               : "no plan today";
        check(text.find(wanted) != std::string::npos, "got \"", text, "\"");
        check(ddp.has_value() == later, "the error came elsewhere");
        if (!later) ddp.emplace(toy, group, DdpOptions{.planner = planner});
        toy.zero_grad();
        toy.loss(1).backward();
        toy.expect_all(kRanks, {1});
      });
    }
  }
}

}  // namespace
}  // namespace lockstep

#include "lockstep/distributed/reduce/bucket_plan.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace lockstep {
namespace {

ParamSpec f32(int64_t numel) { return {"p", {numel}, DType::kF32}; }

std::vector<std::vector<int>> params_of(const BucketPlan& plan) {
  std::vector<std::vector<int>> lists;
  for (const Bucket& bucket : plan.buckets) lists.push_back(bucket.params);
  return lists;
}

using Lists = std::vector<std::vector<int>>;
constexpr double kKiB = 1.0 / 1024;

TEST_CASE("a bucket closes with the gradient that brings it to its cap") {
  const std::vector<ParamSpec> params = {f32(100), f32(256), f32(256), f32(255), f32(1)};
  // 1 KiB is 256 floats.
  CHECK(params_of(plan_buckets(params, {kKiB, kKiB})) == Lists{{4, 3}, {2}, {1}, {0}});
  CHECK(params_of(plan_buckets(params, {0, 2 * kKiB})) == Lists{{4}, {3, 2, 1}, {0}});
  const BucketPlan whole = plan_buckets(params, {100, 100});
  CHECK(params_of(whole) == Lists{{4, 3, 2, 1, 0}});
  CHECK(whole.buckets[0].bytes == 4 * (100 + 256 + 256 + 255 + 1));
}

TEST_CASE("cap 0 gives every gradient a bucket of its own, last parameter first") {
  const std::vector<ParamSpec> params = {f32(1), f32(2), f32(0)};
  CHECK(params_of(plan_buckets(params, {0, 0})) == Lists{{2}, {1}, {0}});
  CHECK(plan_buckets({}, {0, 0}).buckets.empty());
}

TEST_CASE("a tensor over the cap is not cut") {
  const std::vector<ParamSpec> params = {f32(1), f32(1000000), f32(1)};
  CHECK(params_of(plan_buckets(params, {kKiB, kKiB})) == Lists{{2, 1}, {0}});
}

TEST_CASE("each dtype has buckets of its own, in the order in which they close") {
  const std::vector<ParamSpec> params = {{"a", {10}, DType::kF32},
                                         {"b", {10}, DType::kF64},
                                         {"c", {300}, DType::kF32},
                                         {"d", {10}, DType::kF64},
                                         {"e", {10}, DType::kF32}};
  const BucketPlan plan = plan_buckets(params, {kKiB, kKiB});
  CHECK(params_of(plan) == Lists{{4, 2}, {3, 1}, {0}});
  CHECK(plan.buckets[1].dtype == DType::kF64);
  CHECK(plan.buckets[1].bytes == 160);
}

TEST_CASE("caps that make no sense are refused") {
  const std::vector<ParamSpec> params = {f32(1)};
  CHECK_THROWS_AS(plan_buckets(params, {-1, 25}), ArgumentError);
  CHECK_THROWS_AS(plan_buckets(params, {1, std::numeric_limits<double>::infinity()}),
                  ArgumentError);
  CHECK_THROWS_AS(plan_buckets(params, {std::numeric_limits<double>::quiet_NaN(), 25}),
                  ArgumentError);
}

}  // namespace
}  // namespace lockstep

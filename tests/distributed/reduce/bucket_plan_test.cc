#include "lockstep/distributed/reduce/bucket_plan.h"

#include "lockstep/distributed/reduce/layer_plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
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
constexpr double kByte = 1.0 / 1024 / 1024;

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

TEST_CASE("a bucket goes when its last gradient has come, also one that never reaches its cap") {
  const std::vector<ParamSpec> params = {{"a", {300}, DType::kF32},
                                         {"b", {10}, DType::kF64},
                                         {"c", {1}, DType::kF32},
                                         {"d", {10}, DType::kBF16}};
  CHECK(params_of(plan_buckets(params, {kKiB, kKiB})) == Lists{{3}, {1}, {2, 0}});
}

TEST_CASE("a first cap of one byte is the first gradient that has any") {
  const std::vector<ParamSpec> params = {f32(7), f32(7), f32(1), f32(0)};
  CHECK(params_of(plan_buckets(params, {kByte, 25})) == Lists{{3, 2}, {1, 0}});
}

TEST_CASE("parameters without elements have a place") {
  const std::vector<ParamSpec> params = {f32(0), f32(0)};
  CHECK(params_of(plan_buckets(params, {})) == Lists{{1, 0}});
  CHECK(params_of(plan_buckets(params, {.last_mb = 0})) == Lists{{1}, {0}});
}

TEST_CASE("one parameter is one bucket, whatever the caps") {
  const std::vector<ParamSpec> params = {f32(1000)};
  for (const BucketCaps& caps : {BucketCaps{}, BucketCaps{0, 0}, BucketCaps{.last_mb = 0},
                                 BucketCaps{.last_mb = 25}, BucketCaps{.list_mb = {1}}}) {
    CHECK(params_of(plan_buckets(params, caps)) == Lists{{0}});
  }
}

TEST_CASE("the gradients that arrive last are a bucket of their own") {
  const std::vector<ParamSpec> params = {f32(100), f32(156), f32(256), f32(512), f32(1)};
  // Exactly 1 KiB fits; one byte less leaves the first parameter alone.
  CHECK(params_of(plan_buckets(params, {100, 100, kKiB})) == Lists{{4, 3, 2}, {1, 0}});
  CHECK(params_of(plan_buckets(params, {100, 100, kKiB - kByte})) == Lists{{4, 3, 2, 1}, {0}});
  CHECK(params_of(plan_buckets(params, {0, 2 * kKiB, kKiB})) == Lists{{4}, {3}, {2}, {1, 0}});
  // At least one, also when it is larger.
  CHECK(params_of(plan_buckets(params, {100, 100, 0})) == Lists{{4, 3, 2, 1}, {0}});
  CHECK(params_of(plan_buckets(params, {0, 0, 100})) == Lists{{4, 3, 2, 1, 0}});
}

TEST_CASE("each dtype has a last bucket") {
  const std::vector<ParamSpec> params = {{"a", {1}, DType::kF32},
                                         {"b", {1}, DType::kF64},
                                         {"c", {1}, DType::kF32},
                                         {"d", {1}, DType::kF64}};
  CHECK(params_of(plan_buckets(params, {1, 25, 0})) == Lists{{3}, {2}, {1}, {0}});
}

TEST_CASE("a list gives each bucket its cap, and the last one to those behind it") {
  const std::vector<ParamSpec> params(8, f32(256));
  CHECK(params_of(plan_buckets(params, {.list_mb = {kKiB, 3 * kKiB, 2 * kKiB}})) ==
        Lists{{7}, {6, 5, 4}, {3, 2}, {1, 0}});
  CHECK(params_of(plan_buckets(params, {.first_mb = 0, .list_mb = {100}})) ==
        Lists{{7, 6, 5, 4, 3, 2, 1, 0}});
  CHECK(params_of(plan_buckets(params, {.last_mb = 0, .list_mb = {4 * kKiB}})) ==
        Lists{{7, 6, 5, 4}, {3, 2, 1}, {0}});
  CHECK(plan_buckets(params, {.list_mb = {0}}).buckets.size() == 8);
}

TEST_CASE("in the order of arrival") {
  const std::vector<ParamSpec> params = {f32(1), f32(256), f32(1), f32(255)};
  const auto in_order = [&](std::vector<int> order) {
    return plan_in_order(plan_buckets, params, order, {kKiB, kKiB});
  };
  CHECK(in_order({3, 2, 1, 0}) == plan_buckets(params, {kKiB, kKiB}));
  CHECK(params_of(in_order({0, 1, 2, 3})) == Lists{{0, 1}, {2, 3}});
  CHECK(params_of(in_order({1, 3, 0, 2})) == Lists{{1}, {3, 0}, {2}});
  CHECK(in_order({1, 3, 0, 2}).buckets[1].bytes == 1024);
  CHECK(plan_in_order(plan_buckets, {}, {}, {}).buckets.empty());
}

TEST_CASE("an order that is none is refused") {
  const std::vector<ParamSpec> params = {{"a", {1}}, {"b", {1}}, {"c", {1}}};
  const auto in_order = [&](std::vector<int> order) {
    return plan_in_order(plan_buckets, params, order, {});
  };
  CHECK_THROWS_WITH_AS(in_order({0, 1}), doctest::Contains("wanted 3 parameters, got 2"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS(in_order({0, 1, 1}), doctest::Contains("holds b twice"), ArgumentError);
  CHECK_THROWS_WITH_AS(in_order({0, 1, 3}), doctest::Contains("parameter 3, but there are 3"),
                       ArgumentError);
  CHECK_THROWS_AS(in_order({0, -1, 2}), ArgumentError);
}

TEST_CASE("a planner of the user's own sees the parameters so that the last one arrives first") {
  const std::vector<ParamSpec> params = {{"a", {1}}, {"b", {2}}, {"c", {3}}};
  std::string seen;
  const Planner pairs = [&](std::span<const ParamSpec> specs, const BucketCaps& caps) {
    for (const ParamSpec& spec : specs) seen += spec.name;
    CHECK(caps.rest_mb == 7);
    return BucketPlan{{{DType::kF32, {2, 0}, 4 * 3}, {DType::kF32, {1}, 4 * 3}}};
  };
  // b arrives first, then c, then a.
  const BucketPlan plan = plan_in_order(pairs, params, std::vector<int>{1, 2, 0}, {.rest_mb = 7});
  CHECK(seen == "acb");
  CHECK(params_of(plan) == Lists{{1, 0}, {2}});
  const Planner none = [](std::span<const ParamSpec>, const BucketCaps&) { return BucketPlan(); };
  CHECK_THROWS_WITH_AS(plan_in_order(none, params, std::vector<int>{1, 2, 0}, {}),
                       doctest::Contains("lacks"), ArgumentError);
}

TEST_CASE("a plan is checked") {
  const std::vector<ParamSpec> params = {
      {"a", {1}, DType::kF32}, {"b", {2}, DType::kF64}, {"c", {3}, DType::kF32}};
  const Bucket f32s{DType::kF32, {2, 0}, 16}, f64s{DType::kF64, {1}, 16};
  CHECK_NOTHROW(check_plan({{f32s, f64s}}, params));
  CHECK_NOTHROW(check_plan({{f64s, f32s}}, params));
  const auto refuses = [&](std::vector<Bucket> buckets, const char* message) {
    CHECK_THROWS_WITH_AS(check_plan({std::move(buckets)}, params), doctest::Contains(message),
                         ArgumentError);
  };
  refuses({f32s}, "lacks b");
  refuses({f32s, f64s, {DType::kF32, {0}, 4}}, "holds a twice");
  refuses({f32s, f64s, {}}, "bucket 2 is empty");
  refuses({{DType::kF32, {2, 1, 0}, 32}}, "bucket 0: wanted gradients of f32, got b of f64");
  refuses({f32s, {DType::kF64, {1, 3}, 16}}, "parameter 3, but there are 3");
  refuses({f32s, {DType::kF64, {-1}, 16}}, "parameter -1");
  refuses({f32s, {DType::kF64, {1}, 8}},
          "bucket 1: wanted 16 bytes, those of its gradients, got 8");
}

TEST_CASE("two hundred parameters with caps of 1 KB") {
  const std::vector<ParamSpec> params(200, f32(64));
  const BucketPlan plan = plan_buckets(params, {kKiB, kKiB});
  REQUIRE(plan.buckets.size() == 50);
  for (const Bucket& bucket : plan.buckets) CHECK(bucket.bytes == 1024);
  check_plan(plan, params);
}

// The rule, said another way than in the planner: what must hold of a plan, bucket by bucket.
void check_rule(const BucketPlan& plan, std::span<const ParamSpec> params,
                const std::vector<int>& order, const BucketCaps& caps) {
  const auto bytes = [&](int i) {
    return static_cast<double>(params[static_cast<size_t>(i)].bytes());
  };
  const auto limit = [&](size_t k) {
    if (caps.list_mb.empty()) return (k == 0 ? caps.first_mb : caps.rest_mb) / kByte;
    return (k < caps.list_mb.size() ? caps.list_mb[k] : caps.list_mb.back()) / kByte;
  };
  std::map<DType, std::vector<int>> arrivals, planned;
  std::map<DType, std::vector<std::vector<int>>> buckets;
  for (int i : order) arrivals[params[static_cast<size_t>(i)].dtype].push_back(i);
  std::ptrdiff_t completed = -1;
  for (const Bucket& bucket : plan.buckets) {
    auto& list = planned[bucket.dtype];
    list.insert(list.end(), bucket.params.begin(), bucket.params.end());
    buckets[bucket.dtype].push_back(bucket.params);
    const auto at = std::find(order.begin(), order.end(), bucket.params.back()) - order.begin();
    CHECK(at > completed);
    completed = at;
  }
  CHECK(planned == arrivals);
  for (const auto& [dtype, lists] : buckets) {
    for (size_t k = 0; k < lists.size(); ++k) {
      double held = 0;
      for (int i : lists[k]) held += bytes(i);
      const double without_its_last = held - bytes(lists[k].back());
      const bool is_last = k + 1 == lists.size();
      if (is_last && caps.last_mb) {
        const double most = *caps.last_mb / kByte;
        if (lists[k].size() > 1) CHECK(held <= most);
        if (k > 0 && most > 0) CHECK(held + bytes(lists[k - 1].back()) > most);
        continue;
      }
      const bool before_last = k + 2 == lists.size() && caps.last_mb;
      if (lists[k].size() > 1) CHECK(without_its_last < limit(k));
      if (!is_last && !before_last) CHECK(held >= limit(k));
    }
  }
}

TEST_CASE("plans of random parameters, caps and orders keep the rule") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto some_cap = [&] { return below(4) == 0 ? 0 : below(3000) * kByte; };
  for (int trial = 0; trial < 2000; ++trial) {
    CAPTURE(trial);
    std::vector<ParamSpec> params(static_cast<size_t>(below(30)));
    const DType dtypes[] = {DType::kF32, DType::kF64, DType::kBF16};
    const int kinds = 1 + below(3);
    for (ParamSpec& param : params) {
      param = {
          str("p", &param - params.data()), {below(5) == 0 ? 0 : below(300)}, dtypes[below(kinds)]};
    }
    BucketCaps caps{some_cap(), some_cap()};
    if (below(2) == 0) caps.last_mb = some_cap();
    if (below(3) == 0) {
      caps.list_mb.resize(static_cast<size_t>(1 + below(4)));
      std::generate(caps.list_mb.begin(), caps.list_mb.end(), some_cap);
    }
    std::vector<int> order(params.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const BucketPlan plan = plan_in_order(plan_buckets, params, order, caps);
    check_plan(plan, params);
    check_rule(plan, params, order, caps);
  }
}

TEST_CASE("caps that make no sense are refused") {
  const std::vector<ParamSpec> params = {f32(1)};
  CHECK_THROWS_AS(plan_buckets(params, {-1, 25}), ArgumentError);
  CHECK_THROWS_AS(plan_buckets(params, {1, std::numeric_limits<double>::infinity()}),
                  ArgumentError);
  CHECK_THROWS_AS(plan_buckets(params, {std::numeric_limits<double>::quiet_NaN(), 25}),
                  ArgumentError);
  CHECK_THROWS_AS(plan_buckets(params, {.last_mb = -1}), ArgumentError);
  CHECK_THROWS_AS(plan_buckets(params, {.list_mb = {1, -1}}), ArgumentError);
}

TEST_CASE("a plan by layers cuts buckets where layers and dtypes end, whatever the caps") {
  const std::vector<ParamSpec> params = {
      {"stem.weight", {4}, DType::kF32}, {"layer1.0.a", {1 << 20}, DType::kF32},
      {"layer1.0.b", {2}, DType::kF32},  {"layer1.1.a", {2}, DType::kF32},
      {"layer1.1.b", {2}, DType::kF64},  {"head.weight", {3}, DType::kF64}};
  const Planner planner = plan_by_layer(
      [](std::string_view name) { return std::string(name.substr(0, name.rfind('.'))); });
  const BucketPlan plan = planner(params, {0, 0});
  check_plan(plan, params);
  std::vector<std::vector<int>> buckets;
  for (const Bucket& bucket : plan.buckets) buckets.push_back(bucket.params);
  CHECK(buckets == std::vector<std::vector<int>>{{5}, {4}, {3}, {2, 1}, {0}});
}

}  // namespace
}  // namespace lockstep

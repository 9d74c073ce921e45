// Top-k with error feedback: the choice, the sums, what comes later, the state.
#include "lockstep/distributed/reduce/hooks/topk_hook.h"

#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/reduce/hooks/top_k.h"
#include "lockstep/tests/distributed/reduce/hook_bucket.h"
#include "lockstep/tests/support/gradcheck.h"
#include "lockstep/tests/support/random_delay.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace lockstep {
namespace {

using namespace testing;
using Floats = std::vector<float>;

const auto random_delay = testing::delays_up_to(std::chrono::microseconds(300));

template <class C>
std::vector<int32_t> chosen(const std::vector<C>& x, int64_t k) {
  std::vector<int32_t> out(static_cast<size_t>(k), -1);
  top_k_indexes(x.data(), static_cast<int64_t>(x.size()), k, out.data());
  return out;
}

TEST_CASE("top_k_indexes: by hand") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  using Indexes = std::vector<int32_t>;
  CHECK(chosen<float>({1, -5, 3, 0}, 2) == Indexes{1, 2});
  CHECK(chosen<float>({2, -2, 2, -2}, 3) == Indexes{0, 1, 2});
  CHECK(chosen<float>({1, 2, -2, 3, 2}, 2) == Indexes{1, 3});
  CHECK(chosen<float>({0, -0.0f, 0}, 2) == Indexes{0, 1});
  CHECK(chosen<float>({kInf, 1, kNan, -kInf}, 2) == Indexes{0, 2});
  CHECK(chosen<float>({1e-45f, 0, 1e-44f}, 1) == Indexes{2});
  CHECK(chosen<float>({7, 8}, 2) == Indexes{0, 1});
  CHECK(chosen<float>({7, 8}, 0) == Indexes{});
  CHECK(chosen<float>({}, 0) == Indexes{});
}

template <class C>
void compare_with_sorting() {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const auto n = static_cast<size_t>(1 + random() % 400);
    std::vector<C> x(n);
    // Few different values: many ties.
    const int values = trial % 2 == 0 ? 5 : 1'000'000;
    for (C& v : x) {
      v = static_cast<C>(static_cast<int>(random() % static_cast<unsigned>(values)) - values / 2) /
          C{7};
    }
    const size_t k = random() % (n + 1);
    std::vector<int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return std::abs(x[static_cast<size_t>(a)]) > std::abs(x[static_cast<size_t>(b)]);
    });
    order.resize(k);
    std::sort(order.begin(), order.end());
    REQUIRE(chosen(x, static_cast<int64_t>(k)) == order);
  }
}

TEST_CASE("top_k_indexes: as by a stable sort, with and without ties") {
  compare_with_sorting<float>();
  compare_with_sorting<double>();
}

TEST_CASE("topk: two steps by hand on three ranks") {
  // ratio 1/4 of 4 elements: one each.
  const Floats step_1[] = {{5, 1, 0, 0}, {-3, 4, 0, 0}, {2, 2, 1, 0}};
  // Chosen: 5 at 0; 4 at 1; 2 at 0 (a tie).           left: {0,1,0,0} {-3,0,0,0} {0,2,1,0}
  const Floats sum_1 = {7, 4, 0, 0};
  const Floats step_2[] = {{0, 0, 0, 3}, {-3, 0, 0, 0}, {0, 0, 0.5f, 1}};
  // With what was left: {0,1,0,3} {-6,0,0,0} {0,2,1.5,1}: 3 at 3; -6 at 0; 2 at 1.
  const Floats sum_2 = {-6, 2, 0, 3};
  const Floats left[] = {{0, 1, 0, 0}, {0, 0, 0, 0}, {0, 0, 1.5f, 1}};
  spawn(3,
        [&](ProcessGroup& group) {
          const auto me = static_cast<size_t>(group.rank());
          TopKHook hook({.ratio = 0.25});
          const auto reduce = [&](const Floats& values, const Floats& wanted) {
            // A neighbour in the bucket, of one element, which always travels.
            const GradBucket bucket =
                make_bucket({{"w", Tensor::from(values, {2, 2})},
                             {"b", Tensor::from<float>({1.0f + group.rank()}, {1})}});
            check(hook.reduce(bucket, group) == 2 * 8, "bytes");
            check(bucket.params[0].grad.to_vector<float>() == wanted, "the sum");
            check(bucket.params[1].grad.item() == 6, "the neighbour");
            require_same_bits(bucket.flat, group);
          };
          reduce(step_1[me], sum_1);
          reduce(step_2[me], sum_2);
          const auto state = hook.state();
          check(state.size() == 2 && state[0].name == "residual.b" && state[1].name == "residual.w",
                "names");
          check(state[1].tensor.to_vector<float>() == left[me], "what is left");
        },
        {.delay = random_delay});
}

TEST_CASE("topk: contributions are added in the order of the ranks, 16 bits in f32") {
  spawn(4, [](ProcessGroup& group) {
    // Every rank sends its one element.
    const float values[] = {1e8f, -1e8f, 1, 0.5f};
    TopKHook hook;
    const GradBucket bucket =
        make_bucket({{"w", Tensor::from<float>({values[group.rank()]}, {1})}});
    hook.reduce(bucket, group);
    check(bucket.params[0].grad.item() == 1.5, "got ", bucket.params[0].grad.item());
    // 256 + 1 + 1 + 1: rounding to bf16 after each addition would stay at 256.
    const GradBucket half =
        make_bucket({{"h", Tensor::from<bf16>({bf16(group.rank() == 0 ? 256.f : 1.f)}, {1})}});
    hook.reduce(half, group);
    check(half.params[0].grad.item() == 260, "got ", half.params[0].grad.item());  // of 259: even
  });
}

/// A constant gradient on each rank, many steps: what arrived and what is left are what was put in.
template <class T>
void check_nothing_is_lost(ProcessGroup& group, double tolerance) {
  constexpr int kSteps = 60;
  constexpr int64_t kNumel = 200;
  const auto gradient = [](int rank) {
    return ops::cast(random_tensor({kNumel}, static_cast<uint64_t>(rank + 1)), dtype_of<T>);
  };
  TopKHook hook({.ratio = 0.1});
  std::vector<double> arrived(kNumel), true_sum(kNumel);
  for (int r = 0; r < group.size(); ++r) {
    const Tensor exact = ops::cast(gradient(r), DType::kF64);
    const auto values = exact.to_vector<double>();
    for (size_t i = 0; i < kNumel; ++i) true_sum[i] += values[i];
  }
  double early = 0, late = 0;  // distance of the mean over the steps from the true sum
  for (int step = 1; step <= kSteps; ++step) {
    const GradBucket bucket = make_bucket({{"w", gradient(group.rank())}});
    hook.reduce(bucket, group);
    require_same_bits(bucket.flat, group);
    const auto out = ops::cast(bucket.params[0].grad, DType::kF64).to_vector<double>();
    double distance = 0;
    for (size_t i = 0; i < kNumel; ++i) {
      arrived[i] += out[i];
      distance = std::max(distance, std::abs(arrived[i] / step - true_sum[i]));
    }
    if (step == 2) early = distance;
    if (step == kSteps) late = distance;
  }
  check(late < 0.2 * early, "the mean does not converge: ", early, " then ", late);

  Tensor left = ops::cast(ops::clone(hook.state()[0].tensor), DType::kF64);
  group.all_reduce(left)->wait();
  for (size_t i = 0; i < kNumel; ++i) {
    const double wanted = kSteps * true_sum[i];
    const double got = arrived[i] + left.data<double>()[i];
    check(std::abs(got - wanted) <= tolerance * kSteps, "element ", i, ": put in ", wanted,
          ", came out ", got);
  }
}

TEST_CASE("topk: nothing is lost, and the mean over the steps converges to the true sum") {
  for (const int n : {3, 4}) {
    CAPTURE(n);
    // f32: a few roundings of numbers up to about 10 in each step. bf16: the sums are rounded.
    spawn(n, [](ProcessGroup& g) { check_nothing_is_lost<float>(g, 1e-5); },
          {.delay = random_delay});
    spawn(n, [](ProcessGroup& g) { check_nothing_is_lost<double>(g, 1e-13); });
    spawn(n, [](ProcessGroup& g) { check_nothing_is_lost<bf16>(g, 0.05); });
  }
}

TEST_CASE("topk: how many travel") {
  CHECK(TopKHook().chosen_of(1000) == 10);
  CHECK(TopKHook().chosen_of(10) == 1);
  CHECK(TopKHook().chosen_of(1) == 1);
  CHECK(TopKHook().chosen_of(0) == 0);
  CHECK(TopKHook({.ratio = 1}).chosen_of(17) == 17);
  CHECK(TopKHook({.ratio = 0.1}).chosen_of(30) == 3);
  for (const double ratio : {0.0, -1.0, 1.5, std::nan("")}) {
    CHECK_THROWS_AS(TopKHook({.ratio = ratio}), ArgumentError);
  }
}

GradBucket step_of(int step) {
  const auto seed = static_cast<uint64_t>(step);
  return make_bucket({{"w", ops::cast(random_tensor({6, 5}, seed), DType::kF32)},
                      {"b", ops::cast(random_tensor({9}, seed + 100), DType::kF32)},
                      {"none", Tensor::zeros({0}, DType::kF32)}});
}

std::vector<NamedTensor> copy_of(const std::vector<NamedTensor>& state) {
  std::vector<NamedTensor> copy;
  for (const auto& [name, tensor] : state) copy.push_back({name, ops::clone(tensor)});
  return copy;
}

TEST_CASE("topk: a hook that takes over the state goes on bit for bit, in other buckets too") {
  const auto group = make_single_group();
  TopKHook first({.ratio = 0.1});
  for (int step = 0; step < 5; ++step) first.reduce(step_of(step), *group);
  TopKHook second({.ratio = 0.1});
  second.load_state(copy_of(first.state()));
  for (int step = 5; step < 8; ++step) {
    const GradBucket whole = step_of(step);
    first.reduce(whole, *group);
    const GradBucket again = step_of(step);
    for (const auto& param : again.params) {
      const GradBucket alone = make_bucket({{param.name, param.grad}});
      second.reduce(alone, *group);
      for (const auto& p : whole.params) {
        if (p.name != param.name) continue;
        CHECK(p.grad.to_vector<float>() == alone.params[0].grad.to_vector<float>());
      }
    }
  }
  const auto a = first.state(), b = second.state();
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].tensor.to_vector<float>() == b[i].tensor.to_vector<float>());
  }
}

TEST_CASE("topk: state that does not fit is refused, and nothing was changed") {
  const auto group = make_single_group();
  const auto load = [](TopKHook& hook, std::vector<NamedTensor> state) { hook.load_state(state); };
  TopKHook fresh;
  CHECK_THROWS_WITH_AS(load(fresh, {{"momentum.w", Tensor::zeros({1}, DType::kF32)}}),
                       doctest::Contains("residual."), ArgumentError);
  CHECK_THROWS_AS(load(fresh, {{"residual.w", Tensor::zeros({1}, DType::kI32)}}), ArgumentError);
  CHECK_THROWS_AS(load(fresh, {{"residual.w", Tensor()}}), ArgumentError);
  CHECK_THROWS_WITH_AS(load(fresh, {{"residual.w", Tensor::zeros({1}, DType::kF32)},
                                    {"residual.w", Tensor::zeros({1}, DType::kF32)}}),
                       doctest::Contains("twice"), ArgumentError);
  CHECK(fresh.state().empty());
  // A hook that has not seen a bucket yet notices with the first.
  load(fresh, {{"residual.w", Tensor::zeros({5, 6}, DType::kF32)}});
  CHECK_THROWS_WITH_AS(fresh.reduce(step_of(0), *group), doctest::Contains("[5, 6]"),
                       ArgumentError);

  TopKHook warm({.ratio = 0.1});
  warm.reduce(step_of(0), *group);
  const auto before = copy_of(warm.state());
  const Tensor b = Tensor::zeros({9}, DType::kF32);
  CHECK_THROWS_WITH_AS(load(warm, {{"residual.b", b}, {"residual.c", b}}),
                       doctest::Contains("no parameter c"), ArgumentError);
  CHECK_THROWS_WITH_AS(load(warm, {{"residual.b", b}, {"residual.w", b}}),
                       doctest::Contains("wanted f32 [6, 5]"), ArgumentError);
  const auto after = warm.state();
  REQUIRE(after.size() == before.size());
  for (size_t i = 0; i < after.size(); ++i) {
    CHECK(after[i].tensor.to_vector<float>() == before[i].tensor.to_vector<float>());
  }
}

}  // namespace
}  // namespace lockstep

#include "lockstep/autograd/ops/norm.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/norm.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

/// Sums, also as a Variable, without the elementwise ops: a test of one family needs no other.
Variable plus(const Variable& a, const Variable& b) {
  Tensor y = ops::clone(a.data());
  ops::add_scaled(b.data(), 1.0, y);
  return record("plus", y, {a, b}, [](const Tensor& g, GradSink& sink) {
    if (sink.wants(0)) sink.give(0, g);
    if (sink.wants(1)) sink.give(1, g);
  });
}

struct Stats {
  Tensor mean, var;
  explicit Stats(int64_t channels, DType dtype = DType::kF64)
      : mean(random_tensor({channels}, 21, -1, 1, dtype)),
        var(random_tensor({channels}, 22, 0.5, 2, dtype)) {}
};

TEST_CASE("batch_norm: gradients, in training and evaluation, plain and fused") {
  for (const bool training : {true, false}) {
    for (const Shape& shape : {Shape{5, 3}, Shape{2, 3, 2, 4}}) {
      const int64_t channels = shape.dim(-1);
      const BatchNormOptions o{.training = training};
      const std::vector<Tensor> inputs{random_tensor(shape, 1),
                                       random_tensor({channels}, 2, 0.5, 2),
                                       random_tensor({channels}, 3), random_tensor(shape, 4)};
      const std::vector<Tensor> three(inputs.begin(), inputs.begin() + 3);
      CAPTURE(training);
      CHECK(gradcheck(
                [&](const auto& v) {
                  Stats s(channels);
                  return batch_norm(v[0], v[1], v[2], s.mean, s.var, o);
                },
                three) == "");
      CHECK(gradcheck(
                [&](const auto& v) {
                  Stats s(channels);
                  return batch_norm_relu(v[0], v[1], v[2], s.mean, s.var, o);
                },
                three) == "");
      CHECK(gradcheck(
                [&](const auto& v) {
                  Stats s(channels);
                  return batch_norm_relu(v[0], v[1], v[2], s.mean, s.var, o, v[3]);
                },
                inputs) == "");
      // The residual is the input itself: both gradients meet in one memory.
      CHECK(gradcheck(
                [&](const auto& v) {
                  Stats s(channels);
                  return batch_norm_relu(v[0], v[1], v[2], s.mean, s.var, o, v[0]);
                },
                three) == "");
    }
  }
}

/// Plays two other ranks: one without rows, and one whose rows do not change and are in no loss.
class ConstantPeers final : public NormExchange {
 public:
  explicit ConstantPeers(const Tensor& rows) {
    const int64_t channels = rows.dim(-1);
    Tensor mean = Tensor::empty({channels}, DType::kF64), variance = ops::clone(mean);
    ops::batch_norm_moments(rows, mean, variance);
    part_ = {static_cast<double>(rows.numel() / channels)};
    for (const double v : mean.to_vector<double>()) part_.push_back(v);
    for (const double v : variance.to_vector<double>()) part_.push_back(v);
  }
  Tensor all_gather(const Tensor& mine) override {
    std::vector<double> all(part_.size(), 0.0);
    all.insert(all.end(), part_.begin(), part_.end());
    for (const double v : mine.to_vector<double>()) all.push_back(v);
    return Tensor::from(all, {3, mine.numel()});
  }
  void all_reduce(Tensor&) override {}

 private:
  std::vector<double> part_;
};

TEST_CASE("batch_norm with an exchange: gradients") {
  for (const Shape& shape : {Shape{5, 3}, Shape{1, 3}, Shape{2, 3, 2, 4}}) {
    const int64_t channels = shape.dim(-1);
    const BatchNormOptions o{
        .exchange = std::make_shared<ConstantPeers>(random_tensor({4, channels}, 31, 0, 3))};
    const std::vector<Tensor> inputs{random_tensor(shape, 1), random_tensor({channels}, 2, 0.5, 2),
                                     random_tensor({channels}, 3), random_tensor(shape, 4)};
    const std::vector<Tensor> three(inputs.begin(), inputs.begin() + 3);
    CAPTURE(shape.to_string());
    CHECK(gradcheck(
              [&](const auto& v) {
                Stats s(channels);
                return batch_norm(v[0], v[1], v[2], s.mean, s.var, o);
              },
              three) == "");
    CHECK(gradcheck(
              [&](const auto& v) {
                Stats s(channels);
                return batch_norm_relu(v[0], v[1], v[2], s.mean, s.var, o, v[3]);
              },
              inputs) == "");
  }
}

TEST_CASE("pooled_moments: accurate when the mean is large, and when ranks lie far apart") {
  for (const double offset : {0.0, 1e6}) {
    for (const double distance : {0.0, 1e3}) {
      const Tensor a = random_tensor({3, 7}, 1, offset, offset + 1);
      const Tensor b = random_tensor({5, 7}, 2, offset + distance, offset + distance + 1);
      Tensor all = Tensor::empty({8, 7}, DType::kF64);
      Tensor head = all.slice(0, 5), tail = all.slice(5, 8);
      ops::copy(b, head);
      ops::copy(a, tail);
      Tensor mean = Tensor::empty({7}, DType::kF64), variance = ops::clone(mean);
      Tensor expected_mean = ops::clone(mean), expected_variance = ops::clone(mean);
      ops::batch_norm_moments(all, expected_mean, expected_variance);
      ConstantPeers peers(b);
      CHECK(pooled_moments(a, peers, mean, variance) == 8);
      CAPTURE(offset);
      CAPTURE(distance);
      CHECK(relative_difference(mean, expected_mean) <= 1e-15);
      // A mean of 1e6 is known to 1e-10 in f64, which is what the variance can lose.
      CHECK(relative_difference(variance, expected_variance) <= (offset != 0 ? 1e-9 : 1e-14));
    }
  }
}

TEST_CASE("batch_norm: no rows, or no channels, in evaluation") {
  for (const Shape& shape : {Shape{0, 3}, Shape{2, 0}}) {
    CAPTURE(shape.to_string());
    const int64_t channels = shape.dim(-1);
    CHECK(gradcheck(
              [&](const auto& v) {
                Stats s(channels);
                return batch_norm_relu(v[0], v[1], v[2], s.mean, s.var, {.training = false}, v[3]);
              },
              {random_tensor(shape, 1), random_tensor({channels}, 2), random_tensor({channels}, 3),
               random_tensor(shape, 4)}) == "");
  }
}

TEST_CASE("batch_norm: values against the definition") {
  // More rows than one chunk, fewer than a block, and channels beside a tile.
  for (const Shape& shape : {Shape{2, 3}, Shape{3, 50, 30, 5}, Shape{70, 300}, Shape{9000, 3}}) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const double offset : {0.0, 1000.0}) {
        if (dtype == DType::kBF16 && offset != 0)
          continue;  // bf16 itself cannot hold such values apart
        const int64_t channels = shape.dim(-1);
        const int64_t rows = shape.numel() / channels;
        const Tensor x = random_tensor(shape, 5, offset - 1, offset + 1, dtype);
        const auto values = ops::cast(x, DType::kF64).to_vector<double>();
        std::vector<double> mean(static_cast<size_t>(channels)), var(mean.size()), y(values.size());
        for (size_t i = 0; i < values.size(); ++i)
          mean[i % mean.size()] += values[i] / static_cast<double>(rows);
        for (size_t i = 0; i < values.size(); ++i) {
          const double d = values[i] - mean[i % mean.size()];
          var[i % mean.size()] += d * d / static_cast<double>(rows);
        }
        const DType per_channel = dtype == DType::kBF16 ? DType::kF32 : dtype;
        const Tensor weight = random_tensor({channels}, 6, 0.5, 2, per_channel);
        const Tensor bias = random_tensor({channels}, 7, -1, 1, per_channel);
        const auto w = ops::cast(weight, DType::kF64).to_vector<double>();
        const auto b = ops::cast(bias, DType::kF64).to_vector<double>();
        for (size_t i = 0; i < y.size(); ++i) {
          const size_t c = i % mean.size();
          y[i] = (values[i] - mean[c]) / std::sqrt(var[c] + 1e-5) * w[c] + b[c];
        }
        Tensor running_mean = Tensor::zeros({channels}, per_channel);
        Tensor running_var = ops::full({channels}, 1, per_channel);
        const Variable got = batch_norm(Variable(x), Variable(weight), Variable(bias), running_mean,
                                        running_var, {.momentum = 0.25});
        CAPTURE(shape.to_string());
        CAPTURE(name_of(dtype));
        CAPTURE(offset);
        // f32 holds values near 1000 to 6e-5, which bounds the mean's part; otherwise some ulps.
        // bf16 rounds the result.
        const double tolerance = dtype == DType::kF64    ? 1e-11
                                 : dtype == DType::kBF16 ? 5e-3
                                 : offset != 0           ? 2e-4
                                                         : 2e-6;
        CHECK(relative_difference(got.data(), Tensor::from(y, shape)) <= tolerance);
        for (double& v : mean) v *= 0.25;
        const double unbiased = static_cast<double>(rows) / static_cast<double>(rows - 1);
        for (double& v : var) v = 0.75 + 0.25 * v * unbiased;
        // The mean of values in [-1, 1) is far smaller than they are, and they are added up in f32.
        const double exact = dtype == DType::kF64 ? 1e-11 : 1e-5;
        CHECK(relative_difference(running_mean, Tensor::from(mean, {channels})) <= exact);
        CHECK(relative_difference(running_var, Tensor::from(var, {channels})) <= exact);
      }
    }
  }
}

TEST_CASE(
    "batch_norm: the variance is accurate when the mean is large and the first row is far off") {
  constexpr int64_t kRows = 100000;
  std::vector<float> values(kRows);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 30000.0f + static_cast<float>(i % 3);
  values[0] = -30000;
  double mean = 0, var = 0;
  for (const float v : values) mean += static_cast<double>(v) / kRows;
  for (const float v : values)
    var += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean) / kRows;
  const Tensor x = Tensor::from(values, {kRows, 1});
  Tensor got_mean = Tensor::empty({1}, DType::kF32), got_var = Tensor::empty({1}, DType::kF32);
  ops::batch_norm_moments(x, got_mean, got_var);
  CHECK(got_mean.item() == doctest::Approx(mean).epsilon(1e-7));
  CHECK(got_var.item() == doctest::Approx(var).epsilon(1e-5));
}

TEST_CASE("batch_norm_relu equals its parts, bit for bit in f32") {
  for (const bool training : {true, false}) {
    for (const bool with_residual : {false, true}) {
      const Shape shape{4, 9, 9, 70};
      const BatchNormOptions o{.training = training};
      const auto leaf = [](const Shape& s, uint64_t seed) {
        return Variable(random_tensor(s, seed, -1, 1, DType::kF32), true);
      };
      std::vector<std::vector<Tensor>> results;
      for (const bool fused : {true, false}) {
        const Variable x = leaf(shape, 1), w = leaf({70}, 2), b = leaf({70}, 3), r = leaf(shape, 4);
        Stats s(70, DType::kF32);
        const Variable residual = with_residual ? r : Variable();
        Variable y;
        if (fused) {
          y = batch_norm_relu(x, w, b, s.mean, s.var, o, residual);
        } else {
          y = batch_norm(x, w, b, s.mean, s.var, o);
          y = relu(with_residual ? plus(y, r) : y);
        }
        y.backward(random_tensor(shape, 9, -1, 1, DType::kF32));
        results.push_back({y.data(), s.mean, s.var, *x.grad(), *w.grad(), *b.grad()});
        if (with_residual) results.back().push_back(*r.grad());
      }
      for (size_t i = 0; i < results[0].size(); ++i) {
        CAPTURE(i);
        CHECK(results[0][i].to_vector<float>() == results[1][i].to_vector<float>());
      }
    }
  }
}

TEST_CASE("batch_norm: bf16 gradients follow f64") {
  const Shape shape{4, 6, 6, 20};
  std::vector<std::vector<Tensor>> results;
  for (const DType dtype : {DType::kBF16, DType::kF64}) {
    const auto make = [&](const Shape& s, uint64_t seed, DType kept, DType wide) {
      return Variable(
          ops::cast(random_tensor(s, seed, -1, 1, kept), dtype == DType::kBF16 ? kept : wide),
          true);
    };
    const Variable x = make(shape, 1, DType::kBF16, DType::kF64),
                   r = make(shape, 2, DType::kBF16, DType::kF64);
    const Variable w = make({20}, 3, DType::kF32, DType::kF64),
                   b = make({20}, 4, DType::kF32, DType::kF64);
    Stats s(20, dtype == DType::kBF16 ? DType::kF32 : DType::kF64);
    const Variable y = batch_norm_relu(x, w, b, s.mean, s.var, {}, r);
    y.backward(ops::cast(random_tensor(shape, 5, 0.5, 1.5, DType::kBF16), dtype));
    results.push_back({y.data(), *x.grad(), *w.grad(), *b.grad(), *r.grad()});
  }
  // A value that rounds to zero in bf16 changes a whole entry, so none may lie that near; seeds are
  // fixed.
  for (size_t i = 0; i < results[0].size(); ++i) {
    CAPTURE(i);
    CHECK(relative_difference(results[0][i], results[1][i]) <= 1e-2);
  }
}

TEST_CASE("batch_norm: evaluation uses and keeps the running statistics") {
  Stats s(3, DType::kF32);
  const auto mean = s.mean.to_vector<float>(), var = s.var.to_vector<float>();
  const Variable x(Tensor::from<float>({1, 2, 3}, {1, 3}));
  const Variable w(ops::full({3}, 2, DType::kF32)), b(ops::full({3}, 1, DType::kF32));
  const auto y = batch_norm(x, w, b, s.mean, s.var, {.training = false}).data().to_vector<float>();
  for (size_t c = 0; c < 3; ++c) {
    CHECK(y[c] == doctest::Approx(
                      (static_cast<float>(c + 1) - mean[c]) / std::sqrt(var[c] + 1e-5f) * 2 + 1));
  }
  CHECK(s.mean.to_vector<float>() == mean);
  CHECK(s.var.to_vector<float>() == var);
}

TEST_CASE("batch_norm: errors") {
  Stats s(3, DType::kF32);
  const Variable w(ops::full({3}, 1, DType::kF32)), b(ops::full({3}, 0, DType::kF32));
  const auto run = [&](const Shape& shape, DType dtype = DType::kF32) {
    batch_norm(Variable(random_tensor(shape, 1, -1, 1, dtype)), w, b, s.mean, s.var, {});
  };
  CHECK_THROWS_WITH_AS(run({1, 3}), doctest::Contains("more than one value"), ArgumentError);
  CHECK_THROWS_WITH_AS(run({0, 3}), doctest::Contains("more than one value"), ArgumentError);
  CHECK_THROWS_WITH_AS(run({4, 5}), doctest::Contains("[5]"), ArgumentError);
  CHECK_THROWS_WITH_AS(run({4, 3}, DType::kF64), doctest::Contains("f64"), ArgumentError);
  CHECK_THROWS_WITH_AS(run({3}), doctest::Contains("[..., C]"), ArgumentError);
}

}  // namespace
}  // namespace lockstep

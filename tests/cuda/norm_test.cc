#include "lockstep/autograd/ops/norm.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/norm.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <vector>

namespace lockstep {
namespace {

using namespace testing;

struct Case {
  Shape shape;
  DType dtype;
  bool training;
  bool fused;  // with the residual and the relu
};

/// Output, running statistics and gradients of one forward and two backwards, which accumulate.
std::vector<Tensor> run_on(Device device, const Case& c) {
  const int64_t channels = c.shape.dim(-1);
  const DType per_channel = c.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const auto leaf = [&](const Shape& shape, uint64_t seed, DType dtype) {
    return Variable(ops::to_device(random_tensor(shape, seed, 0.5, 2, dtype), device), true);
  };
  const Variable x = leaf(c.shape, 1, c.dtype);
  const Variable weight = leaf({channels}, 2, per_channel);
  const Variable bias = leaf({channels}, 3, per_channel);
  const Variable residual = leaf(c.shape, 4, c.dtype);
  Tensor mean = ops::to_device(random_tensor({channels}, 5, 0.5, 2, per_channel), device);
  Tensor variance = ops::to_device(random_tensor({channels}, 6, 0.5, 2, per_channel), device);
  const BatchNormOptions options{.training = c.training};
  Tensor y;
  for (int pass = 0; pass < 2; ++pass) {
    const Variable out = c.fused
                             ? batch_norm_relu(x, weight, bias, mean, variance, options, residual)
                             : batch_norm(x, weight, bias, mean, variance, options);
    out.backward(ops::to_device(random_tensor(c.shape, 7, -1, 1, c.dtype), device));
    y = out.data();
  }
  std::vector<Tensor> results{y, mean, variance, *x.grad(), *weight.grad(), *bias.grad()};
  if (c.fused) results.push_back(*residual.grad());
  for (Tensor& result : results) result = to_cpu(result);
  return results;
}

TEST_CASE("batch_norm on cuda equals the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      // Sums over 35 rows in another order; bf16 rounds the results.
      const double tolerance = dtype == DType::kF64 ? 1e-13 : dtype == DType::kF32 ? 1e-5 : 2e-2;
      for (const Shape& shape : {Shape({5, 1}), Shape({5, 7, 33}), Shape({2, 2, 3, 5}),
                                 Shape({5, 7, 48}), Shape({700, 3})}) {
        for (const bool training : {true, false}) {
          for (const bool fused : {false, true}) {
            const Case c{shape, dtype, training, fused};
            const auto got = run_on(Device::cuda(), c);
            const auto wanted = run_on(Device::cpu(), c);
            for (size_t i = 0; i < got.size(); ++i) {
              INFO("result ", i, " of ", name_of(dtype), " ", shape.to_string(), training, fused);
              CHECK(relative_difference(got[i], wanted[i]) <= tolerance);
            }
          }
        }
      }
    }
  });
}

TEST_CASE(
    "batch_norm on cuda: a mean that is large beside the deviation does not hurt the variance") {
  on_cuda_device([] {
    const Tensor x = random_tensor({300, 2}, 1, 1000, 1001, DType::kF32);
    const auto moments_on = [&](Device device) {
      Tensor mean = Tensor::empty({2}, DType::kF32, device);
      Tensor variance = Tensor::empty({2}, DType::kF32, device);
      ops::batch_norm_moments(ops::to_device(x, device), mean, variance);
      return to_cpu(variance);
    };
    CHECK(relative_difference(moments_on(Device::cuda()), moments_on(Device::cpu())) <= 1e-4);
  });
}

TEST_CASE("batch_norm on cuda: means whose square is beyond the dtype have a finite variance") {
  on_cuda_device([] {
    Tensor mean = Tensor::empty({2}, DType::kF32, Device::cuda());
    Tensor variance = Tensor::empty({2}, DType::kF32, Device::cuda());
    ops::batch_norm_moments(ops::full({300, 2}, 1e25, DType::kF32, Device::cuda()), mean, variance);
    CHECK(to_cpu(mean).data<float>()[0] == doctest::Approx(1e25));
    CHECK(to_cpu(variance).data<float>()[0] == 0);
  });
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/ops/loss.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

// Sums of up to 2101 exponentials in another order; bf16 rounds the gradient once.
double tolerance(DType dtype) {
  return dtype == DType::kF64 ? 1e-13 : dtype == DType::kF32 ? 5e-6 : 8e-3;
}

/// Losses, lse and scale are f32 for bf16 logits.
double loss_tolerance(DType dtype) { return dtype == DType::kF64 ? 1e-13 : 5e-6; }

/// Every third row is ignored.
Tensor targets_for(int64_t rows, int64_t classes, int64_t ignore_index) {
  std::vector<int64_t> targets;
  for (int64_t n = 0; n < rows; ++n) targets.push_back(n % 3 == 1 ? ignore_index : n * 7 % classes);
  return Tensor::from<int64_t>(targets, {rows});
}

Tensor scalar(DType dtype, double value) {
  return ops::full({}, value, dtype == DType::kF64 ? DType::kF64 : DType::kF32, Device::cpu());
}

TEST_CASE("cross_entropy on cuda equals the CPU's, forward and backward") {
  struct Extents {
    int64_t rows, classes;
  };
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Extents& e : {Extents{5, 7}, {1, 2}, {17, 64}, {3, 2101}, {0, 4}}) {
        for (const double smoothing : {0.0, 0.1}) {
          for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
            INFO(std::string(name_of(dtype)), " ", e.rows, " x ", e.classes, ", smoothing ",
                 smoothing);
            const CrossEntropyOptions options{
                .ignore_index = -7, .label_smoothing = smoothing, .reduction = reduction};
            const Tensor x = random_tensor({e.rows, e.classes}, 1, -5, 5, dtype);
            const Tensor targets = targets_for(e.rows, e.classes, -7);
            const auto wanted = ops::cross_entropy(x, targets, options);
            const auto got = ops::cross_entropy(to_cuda(x), to_cuda(targets), options);
            CHECK(relative_difference(to_cpu(got.loss), wanted.loss) <= loss_tolerance(dtype));
            CHECK(relative_difference(to_cpu(got.lse), wanted.lse) <= loss_tolerance(dtype));
            CHECK(relative_difference(to_cpu(got.scale), wanted.scale) <= loss_tolerance(dtype));
            const Tensor grad = scalar(dtype, 0.7);
            const Tensor before = random_tensor(x.shape(), 2, -1, 1, dtype);
            for (const bool accumulate : {false, true}) {
              const Tensor grad_wanted =
                  into(Device::cpu(), before, accumulate, [&](const Dest& d) {
                    ops::cross_entropy_backward(grad, x, targets, options, wanted.lse, wanted.scale,
                                                d);
                  });
              const Tensor grad_got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
                ops::cross_entropy_backward(to_cuda(grad), to_cuda(x), to_cuda(targets), options,
                                            got.lse, got.scale, d);
              });
              CHECK(relative_difference(grad_got, grad_wanted) <= tolerance(dtype));
            }
            const Tensor fresh = into(Device::cpu(), before, false, [&](const Dest& d) {
              ops::cross_entropy_backward(grad, x, targets, options, wanted.lse, wanted.scale, d);
            });
            const Tensor over_logits = into(Device::cuda(), x, false, [&](const Dest& d) {
              ops::cross_entropy_backward(to_cuda(grad), d.out, to_cuda(targets), options, got.lse,
                                          got.scale, d);
            });
            CHECK(relative_difference(over_logits, fresh) <= tolerance(dtype));
          }
        }
      }
    }
  });
}

TEST_CASE("nll on cuda equals the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const int64_t rows : {0, 5, 301}) {
        for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
          const NllOptions options{.reduction = reduction};
          const Tensor x = random_tensor({rows, 6}, 1, -5, 0, dtype);
          const Tensor targets = targets_for(rows, 6, -100);
          const auto wanted = ops::nll(x, targets, options);
          const auto got = ops::nll(to_cuda(x), to_cuda(targets), options);
          CHECK(relative_difference(to_cpu(got.loss), wanted.loss) <= loss_tolerance(dtype));
          CHECK(relative_difference(to_cpu(got.scale), wanted.scale) <= loss_tolerance(dtype));
          const Tensor grad = scalar(dtype, 0.7);
          const Tensor before = random_tensor(x.shape(), 2, -1, 1, dtype);
          for (const bool accumulate : {false, true}) {
            const Tensor grad_wanted = into(Device::cpu(), before, accumulate, [&](const Dest& d) {
              ops::nll_backward(grad, targets, -100, wanted.scale, d);
            });
            const Tensor grad_got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
              ops::nll_backward(to_cuda(grad), to_cuda(targets), -100, got.scale, d);
            });
            CHECK(relative_difference(grad_got, grad_wanted) <= tolerance(dtype));
          }
        }
      }
    }
  });
}

TEST_CASE("losses on cuda: a batch with nothing to predict costs nothing") {
  on_cuda_device([] {
    const Tensor x = to_cuda(random_tensor({3, 4}, 1));
    const Tensor targets = to_cuda(Tensor::from<int64_t>({-100, -100, -100}, {3}));
    const auto result = ops::cross_entropy(x, targets, {});
    CHECK(to_cpu(result.loss).item() == 0);
    CHECK(to_cpu(ops::nll(x, targets, {}).loss).item() == 0);
    const Tensor grad = into(Device::cuda(), random_tensor({3, 4}, 2), false, [&](const Dest& d) {
      ops::cross_entropy_backward(to_cuda(scalar(DType::kF64, 1)), x, targets, {}, result.lse,
                                  result.scale, d);
    });
    for (const double v : grad.to_vector<double>()) CHECK(v == 0);
  });
}

TEST_CASE("losses on cuda: a target that is no class makes the loss and its row's gradient NaN") {
  on_cuda_device([] {
    const Tensor x = to_cuda(random_tensor({3, 4}, 1));
    const Tensor one = to_cuda(scalar(DType::kF64, 1));
    for (const int64_t wrong : {int64_t{4}, int64_t{-1}}) {
      const Tensor targets = to_cuda(Tensor::from<int64_t>({0, wrong, 3}, {3}));
      const auto result = ops::cross_entropy(x, targets, {});
      CHECK(std::isnan(to_cpu(result.loss).item()));
      CHECK(std::isnan(to_cpu(ops::nll(x, targets, {}).loss).item()));
      const auto grads = {
          into(Device::cuda(), random_tensor({3, 4}, 2), false,
               [&](const Dest& d) {
                 ops::cross_entropy_backward(one, x, targets, {}, result.lse, result.scale, d);
               }),
          into(Device::cuda(), random_tensor({3, 4}, 2), false,
               [&](const Dest& d) { ops::nll_backward(one, targets, -100, result.scale, d); })};
      for (const Tensor& grad : grads) {
        const auto values = grad.to_vector<double>();
        for (size_t i = 0; i < values.size(); ++i) CHECK(std::isnan(values[i]) == (i / 4 == 1));
      }
    }
  });
}

}  // namespace
}  // namespace lockstep

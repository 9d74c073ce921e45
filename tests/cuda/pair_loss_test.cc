#include "lockstep/tensor/ops/pair_loss.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

// Sums of 2048 terms in f32, then in f64; bf16 rounds the gradient once.
double tolerance(DType dtype) {
  return dtype == DType::kF64 ? 1e-13 : dtype == DType::kF32 ? 5e-6 : 8e-3;
}
double loss_tolerance(DType dtype) { return dtype == DType::kF64 ? 1e-13 : 5e-6; }

Tensor scalar(DType dtype, double value, Device device) {
  return ops::full({}, value, dtype == DType::kF64 ? DType::kF64 : DType::kF32, device);
}

/// Compares loss(on) and gradient(on, grad_loss, dest) between the devices, `on` moving a tensor.
using On = std::function<Tensor(const Tensor&)>;
void compare(DType dtype, const Tensor& before, const std::function<Tensor(const On&)>& loss,
             const std::function<void(const On&, const Tensor&, const Dest&)>& gradient) {
  const On stay = [](const Tensor& t) { return t; };
  const On move = [](const Tensor& t) { return t.defined() ? to_cuda(t) : t; };
  CHECK(relative_difference(to_cpu(loss(move)), loss(stay)) <= loss_tolerance(dtype));
  for (const bool accumulate : {false, true}) {
    const Tensor wanted = into(Device::cpu(), before, accumulate, [&](const Dest& d) {
      gradient(stay, scalar(dtype, 0.7, Device::cpu()), d);
    });
    const Tensor got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
      gradient(move, scalar(dtype, 0.7, Device::cuda()), d);
    });
    CHECK(relative_difference(got, wanted) <= tolerance(dtype));
  }
}

constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kBF16};

TEST_CASE("mse on cuda equals the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : kTypes) {
      for (const int64_t n : {0, 1, 300, 5000}) {
        for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
          INFO(std::string(name_of(dtype)), " ", n);
          const Tensor x = random_tensor({n}, 1, -1, 1, dtype);
          const Tensor target = random_tensor({n}, 2, -1, 1, dtype);
          compare(
              dtype, random_tensor({n}, 3, -1, 1, dtype),
              [&](const On& on) { return ops::mse(on(x), on(target), reduction); },
              [&](const On& on, const Tensor& grad, const Dest& d) {
                ops::mse_backward(grad, on(x), on(target), reduction, d);
              });
        }
      }
    }
  });
}

TEST_CASE("bce_with_logits on cuda equals the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : kTypes) {
      for (const bool weighted : {false, true}) {
        for (const double size : {1.0, 80.0}) {  // of logits: e^80 must not overflow
          INFO(std::string(name_of(dtype)), " ", weighted, " ", size);
          const Tensor x = random_tensor({7, 33}, 1, -size, size, dtype);
          const Tensor target = random_tensor({7, 33}, 2, 0, 1, dtype);
          const Tensor weight = weighted ? random_tensor({33}, 3, 0.5, 3, dtype) : Tensor();
          compare(
              dtype, random_tensor({7, 33}, 4, -1, 1, dtype),
              [&](const On& on) {
                return ops::bce_with_logits(on(x), on(target), on(weight), Reduction::kMean);
              },
              [&](const On& on, const Tensor& grad, const Dest& d) {
                ops::bce_with_logits_backward(grad, on(x), on(target), on(weight), Reduction::kMean,
                                              d);
              });
        }
      }
    }
  });
}

TEST_CASE("cosine_embedding on cuda equals the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : kTypes) {
      for (const int64_t width : {5, 64, 2101}) {
        for (const int64_t rows : {0, 4}) {
          INFO(std::string(name_of(dtype)), " ", rows, " x ", width);
          Tensor a = random_tensor({rows, width}, 1, -1, 1, dtype);
          const Tensor b = random_tensor({rows, width}, 2, -1, 1, dtype);
          const Tensor labels = Tensor::from<int64_t>(
              rows == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{1, -1, 1, -1}, {rows});
          compare(
              dtype, random_tensor({rows, width}, 3, -1, 1, dtype),
              [&](const On& on) {
                return ops::cosine_embedding(on(a), on(b), on(labels), -0.5, Reduction::kMean);
              },
              [&](const On& on, const Tensor& grad, const Dest& d) {
                ops::cosine_embedding_backward(grad, on(a), on(b), on(labels), -0.5,
                                               Reduction::kMean, d);
              });
        }
      }
    }
  });
}

TEST_CASE("cosine_embedding on cuda: rows of zeros have a cosine of 0; a wrong label makes NaN") {
  on_cuda_device([] {
    const Tensor zeros = to_cuda(Tensor::zeros({2, 3}, DType::kF64));
    const Tensor b = to_cuda(random_tensor({2, 3}, 1));
    const auto loss = [&](int64_t label) {
      const Tensor labels = to_cuda(Tensor::from<int64_t>({1, label}, {2}));
      return to_cpu(ops::cosine_embedding(zeros, b, labels, -0.25, Reduction::kSum)).item();
    };
    CHECK(loss(1) == 2);
    CHECK(loss(-1) == 1.25);
    CHECK(std::isnan(loss(0)));
  });
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/ops/unary.h"

#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

using namespace testing;

constexpr UnaryOp kOps[] = {UnaryOp::kGelu, UnaryOp::kGeluTanh, UnaryOp::kSigmoid, UnaryOp::kTanh,
                            UnaryOp::kSilu, UnaryOp::kLog,      UnaryOp::kExp,     UnaryOp::kSqrt};

/// The CPU's f32 is within 2^-18 by its header, the device's functions are closer; bf16 rounds.
double tolerance_of(DType dtype) {
  return dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 4e-6 : 8e-3;
}

TEST_CASE("functions of one number on cuda equal the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const UnaryOp op : kOps) {
        const bool positive = op == UnaryOp::kLog || op == UnaryOp::kSqrt;
        for (const int64_t n : {0, 1, 31, 257, 1000}) {
          INFO(name_of(dtype), " op ", static_cast<int>(op), " n ", n);
          const Tensor x = random_tensor({n}, 1, positive ? 0.1 : -4, 4, dtype);
          const Tensor y = ops::unary(op, x);
          CHECK(relative_difference(to_cpu(ops::unary(op, to_cuda(x))), y) <= tolerance_of(dtype));
          const Tensor& saved = ops::saves_result(op) ? y : x;
          const Tensor grad = random_tensor({n}, 2, -1, 1, dtype);
          const Tensor before = random_tensor({n}, 3, -1, 1, dtype);
          for (const bool accumulate : {false, true}) {
            const Tensor wanted = into(Device::cpu(), before, accumulate, [&](const Dest& d) {
              ops::unary_backward(op, grad, saved, d);
            });
            const Tensor got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
              ops::unary_backward(op, to_cuda(grad), to_cuda(saved), d);
            });
            CHECK(relative_difference(got, wanted) <= tolerance_of(dtype));
          }
        }
      }
    }
  });
}

TEST_CASE("functions of one number on cuda: far out, and NaN") {
  on_cuda_device([] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor x = Tensor::from<float>({-100, -6, -1e-3f, 0, 1e-3f, 6, 80, nan}, {8});
    for (const UnaryOp op : {UnaryOp::kGelu, UnaryOp::kGeluTanh, UnaryOp::kSigmoid, UnaryOp::kTanh,
                             UnaryOp::kSilu, UnaryOp::kExp}) {
      const auto got = to_cpu(ops::unary(op, to_cuda(x))).to_vector<float>();
      const auto wanted = ops::unary(op, x).to_vector<float>();
      for (size_t i = 0; i + 1 < got.size(); ++i) {
        INFO("op ", static_cast<int>(op), " element ", i);
        CHECK(std::abs(got[i] - wanted[i]) <= 4e-6f * std::abs(wanted[i]) + 1e-8f);
      }
      CHECK(std::isnan(got.back()));
    }
  });
}

}  // namespace
}  // namespace lockstep

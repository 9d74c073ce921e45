#include "lockstep/tensor/ops/select.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/elementwise.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

constexpr CompareOp kOps[] = {CompareOp::kGt, CompareOp::kLt, CompareOp::kGe,
                              CompareOp::kLe, CompareOp::kEq, CompareOp::kNe};

struct Shapes {
  Shape mask, a, b;
};
const std::vector<Shapes> kShapes = {{{}, {}, {}},
                                     {{0}, {0}, {1}},
                                     {{31}, {31}, {31}},
                                     {{1000}, {1000}, {}},
                                     {{33, 1}, {33, 16}, {16}},
                                     {{257}, {3, 257}, {3, 1}},
                                     {{4, 1, 8}, {5, 4, 1, 8}, {7, 1}}};

Tensor mask_of(const Shape& shape, uint64_t seed) {
  return ops::compare(CompareOp::kGt, random_tensor(shape, seed, -1, 1, DType::kF32), 0);
}

TEST_CASE("comparisons on cuda equal the CPU's in every dtype") {
  on_cuda_device([] {
    for (const DType dtype :
         {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kI32, DType::kU8}) {
      for (const Shapes& s : kShapes) {
        // Few values, so that some are equal.
        const Tensor a = ops::cast(ops::cast(random_tensor(s.a, 1, 0, 4), DType::kI32), dtype);
        const Tensor b = ops::cast(ops::cast(random_tensor(s.b, 2, 0, 4), DType::kI32), dtype);
        for (const CompareOp op : kOps) {
          INFO(name_of(dtype), " ", s.a.to_string(), " ", s.b.to_string(), static_cast<int>(op));
          const Tensor wanted = ops::compare(op, a, b);
          CHECK(to_cpu(ops::compare(op, to_cuda(a), to_cuda(b))).to_vector<uint8_t>() ==
                wanted.to_vector<uint8_t>());
        }
      }
    }
  });
}

TEST_CASE("comparisons on cuda: NaN differs from everything, and large i64 are told apart") {
  on_cuda_device([] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor x = to_cuda(Tensor::from<float>({nan, 1}, {2}));
    for (const CompareOp op : kOps) {
      const auto mask = to_cpu(ops::compare(op, x, x)).to_vector<uint8_t>();
      CHECK(mask[0] == (op == CompareOp::kNe));
    }
    const int64_t large = int64_t{1} << 60;
    const Tensor a = Tensor::from<int64_t>({large}, {1}),
                 b = Tensor::from<int64_t>({large + 1}, {1});
    CHECK(to_cpu(ops::compare(CompareOp::kLt, to_cuda(a), to_cuda(b))).item() == 1);
  });
}

TEST_CASE("where on cuda equals the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      // The sums of backward go in another order.
      const double tolerance = dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 1e-6 : 8e-3;
      for (const Shapes& s : kShapes) {
        INFO(name_of(dtype), " ", s.mask.to_string(), s.a.to_string(), s.b.to_string());
        const Tensor mask = mask_of(s.mask, 1);
        const Tensor a = random_tensor(s.a, 2, 1, 2, dtype), b = random_tensor(s.b, 3, 3, 4, dtype);
        const Tensor y = ops::where(mask, a, b);
        CHECK(relative_difference(to_cpu(ops::where(to_cuda(mask), to_cuda(a), to_cuda(b))), y) ==
              0);
        const Tensor grad = random_tensor(y.shape(), 4, 0.5, 1, dtype);
        for (const bool accumulate : {false, true}) {
          for (const bool chosen : {false, true}) {
            for (const Shape& shape : {y.shape(), chosen ? s.a : s.b}) {
              const Tensor before = random_tensor(shape, 5, 0.5, 1, dtype);
              const Tensor wanted = into(Device::cpu(), before, accumulate, [&](const Dest& d) {
                ops::where_backward(grad, mask, chosen, d);
              });
              const Tensor got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
                ops::where_backward(to_cuda(grad), to_cuda(mask), chosen, d);
              });
              CHECK(relative_difference(got, wanted) <= tolerance);
            }
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/ops/metrics.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <limits>

namespace lockstep {
namespace {

using namespace testing;

TEST_CASE("count_correct on cuda equals the CPU's") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Shape& shape : {Shape({0, 10}), Shape({1, 1}), Shape({31, 2}), Shape({257, 10}),
                                 Shape({40, 1000}), Shape({3000, 3})}) {
        // Few values, so that some are equal, and targets outside of the classes.
        const Tensor logits =
            ops::cast(ops::cast(random_tensor(shape, 1, 0, 40), DType::kI32), dtype);
        const double classes = static_cast<double>(shape[1]);
        const Tensor targets =
            ops::cast(random_tensor({shape[0]}, 2, -0.2 * classes - 1, 1.2 * classes), DType::kI64);
        for (const int64_t k : {1, 3}) {
          INFO(name_of(dtype), " ", shape.to_string(), " k ", k);
          CHECK(ops::count_correct(to_cuda(logits), to_cuda(targets), k) ==
                ops::count_correct(logits, targets, k));
        }
      }
    }
  });
}

TEST_CASE("count_correct on cuda: a NaN is above all and never correct") {
  on_cuda_device([] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const Tensor logits = to_cuda(Tensor::from<float>({nan, 2, 1, nan, 2, 1}, {2, 3}));
    const Tensor targets = to_cuda(Tensor::from<int64_t>({0, 1}, {2}));
    CHECK(ops::count_correct(logits, targets, 1) == 0);
    CHECK(ops::count_correct(logits, targets, 2) == 1);
    CHECK(ops::count_correct(logits, targets, 3) == 1);
  });
}

}  // namespace
}  // namespace lockstep

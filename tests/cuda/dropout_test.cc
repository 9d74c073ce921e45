#include "lockstep/tensor/ops/dropout.h"

#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

using namespace testing;

TEST_CASE("dropout on cuda keeps what the CPU keeps, to the bit") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      // Adding may be contracted with the product.
      const double tolerance = dtype == DType::kF64 ? 1e-15 : dtype == DType::kF32 ? 1e-6 : 8e-3;
      for (const int64_t n : {0, 1, 31, 257, 1000, 5003}) {
        for (const double p : {0.0, 0.1, 0.5, 1.0}) {
          INFO(name_of(dtype), " ", n, " p ", p);
          Generator rng(7);
          rng.take(3);
          const DropoutMask mask = ops::dropout_mask(rng.take(n), p);
          const Tensor x = random_tensor({n}, 1, 1, 2, dtype);
          const Tensor before = random_tensor({n}, 2, 1, 2, dtype);
          for (const bool accumulate : {false, true}) {
            const Tensor wanted = into(Device::cpu(), before, accumulate,
                                       [&](const Dest& d) { ops::dropout(x, mask, d); });
            const Tensor got = into(Device::cuda(), before, accumulate,
                                    [&](const Dest& d) { ops::dropout(to_cuda(x), mask, d); });
            CHECK(relative_difference(got, wanted) <= (accumulate ? tolerance : 0));
          }
        }
      }
    }
  });
}

TEST_CASE("dropout on cuda does not depend on where the memory begins") {
  on_cuda_device([] {
    Generator rng(7);
    const DropoutMask mask = ops::dropout_mask(rng.take(1000), 0.3);
    const Tensor x = random_tensor({1001}, 1, 1, 2, DType::kBF16);
    Tensor wanted = Tensor::empty({1000}, DType::kBF16);
    Tensor got = Tensor::empty({1000}, DType::kBF16, Device::cuda());
    ops::dropout(x.slice(1, 1001), mask, {wanted});
    ops::dropout(to_cuda(x).slice(1, 1001), mask, {got});
    CHECK(relative_difference(to_cpu(got), wanted) == 0);
  });
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/ops/activation.h"

#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

using namespace testing;

TEST_CASE("relu on cuda equals the CPU's, forward and backward, to the bit") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const int64_t n : {0, 1, 31, 257, 1000}) {
        const Tensor x = random_tensor({n}, 1, -1, 1, dtype);
        const Tensor grad = random_tensor({n}, 2, -1, 1, dtype);
        const Tensor before = random_tensor({n}, 3, -1, 1, dtype);
        const Tensor y = ops::relu(x);
        CHECK(relative_difference(to_cpu(ops::relu(to_cuda(x))), y) == 0);
        for (const bool accumulate : {false, true}) {
          const Tensor wanted = into(Device::cpu(), before, accumulate,
                                     [&](const Dest& d) { ops::relu_backward(grad, y, d); });
          const Tensor got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
            ops::relu_backward(to_cuda(grad), to_cuda(y), d);
          });
          CHECK(relative_difference(got, wanted) == 0);
        }
      }
    }
  });
}

TEST_CASE("relu on cuda keeps NaN") {
  on_cuda_device([] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const auto y =
        to_cpu(ops::relu(to_cuda(Tensor::from<float>({-2, nan}, {2})))).to_vector<float>();
    CHECK(y[0] == 0);
    CHECK(std::isnan(y[1]));
  });
}

}  // namespace
}  // namespace lockstep

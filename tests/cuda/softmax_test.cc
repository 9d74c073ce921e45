#include "lockstep/tensor/ops/softmax.h"

#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>

namespace lockstep {
namespace {

using namespace testing;

// Exponentials within two units in the last place, sums of up to 2101 in another order; bf16 rounds
// the result once.
double tolerance(DType dtype) {
  return dtype == DType::kF64 ? 1e-13 : dtype == DType::kF32 ? 5e-6 : 8e-3;
}

struct Case {
  Shape shape;
  int dim;
};

// Rows of a warp, aligned and not; rows of a block; columns.
const Case kCases[] = {{{3, 5}, -1},    {{9, 64}, 1},      {{2, 2101}, 1}, {{1, 1}, 0},
                       {{2, 7, 33}, 1}, {{2, 3, 4, 5}, 0}, {{0, 3}, 1},    {{3, 0}, 1}};

TEST_CASE("softmax and log_softmax on cuda equal the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Case& c : kCases) {
        for (const bool log : {false, true}) {
          INFO(std::string(name_of(dtype)), " ", c.shape.to_string(), " dimension ", c.dim,
               ", log ", log);
          const auto op = log ? ops::log_softmax : ops::softmax;
          const auto op_backward = log ? ops::log_softmax_backward : ops::softmax_backward;
          const Tensor x = random_tensor(c.shape, 1, -5, 5, dtype);
          const Tensor grad = random_tensor(c.shape, 2, -1, 1, dtype);
          const Tensor before = random_tensor(c.shape, 3, -1, 1, dtype);
          const Tensor y = op(x, c.dim);
          CHECK(relative_difference(to_cpu(op(to_cuda(x), c.dim)), y) <= tolerance(dtype));
          for (const bool accumulate : {false, true}) {
            const Tensor wanted = into(Device::cpu(), before, accumulate,
                                       [&](const Dest& d) { op_backward(grad, y, c.dim, d); });
            const Tensor got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
              op_backward(to_cuda(grad), to_cuda(y), c.dim, d);
            });
            CHECK(relative_difference(got, wanted) <= tolerance(dtype));
          }
        }
      }
    }
  });
}

TEST_CASE("softmax on cuda: infinities and NaN are the CPU's") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from<float>({-kInf, 1, 2,          //
                                        -kInf, -kInf, -kInf,  //
                                        0, kInf, 1,           //
                                        NAN, 1, 2,            //
                                        1e30f, -1e30f, 0},
                                       {5, 3});
  on_cuda_device([&] {
    for (const int dim : {0, 1}) {
      for (const auto op : {ops::softmax, ops::log_softmax}) {
        const auto wanted = op(x, dim).to_vector<float>();
        const auto got = to_cpu(op(to_cuda(x), dim)).to_vector<float>();
        for (size_t i = 0; i < wanted.size(); ++i) {
          INFO("element ", i, " over dimension ", dim);
          CHECK(std::isnan(got[i]) == std::isnan(wanted[i]));
          if (std::isnan(wanted[i])) continue;
          if (std::isinf(wanted[i])) {
            CHECK(got[i] == wanted[i]);
          } else {
            CHECK(got[i] == doctest::Approx(wanted[i]));
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/ops/elementwise.h"

#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <vector>

namespace lockstep {
namespace {

using namespace testing;

constexpr DType kFloating[] = {DType::kF32, DType::kF64, DType::kBF16};

/// The compilers may contract a product and a sum into one rounding, and sums are added up in
/// another order; bf16 rounds the results.
double tolerance_of(DType dtype) {
  return dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 2e-6 : 8e-3;
}

struct Shapes {
  Shape a, b;
};

/// Equal, odd and empty ones; a number; rows, columns, both, and what stays more than two loops.
const std::vector<Shapes> kShapes = {{{}, {}},
                                     {{0}, {0}},
                                     {{1}, {1}},
                                     {{31}, {31}},
                                     {{257}, {257}},
                                     {{1000}, {1000}},
                                     {{1003}, {}},
                                     {{37, 24}, {24}},
                                     {{24}, {37, 24}},
                                     {{37, 24}, {37, 1}},
                                     {{37, 1}, {24}},
                                     {{600, 3}, {3}},
                                     {{5, 4, 7, 8}, {4, 1, 8}},
                                     {{3, 0, 2}, {1, 2}},
                                     {{2, 3, 5}, {3, 5}},
                                     {{3, 700}, {700}},
                                     {{2, 1500}, {2, 1}},
                                     {{1, 6}, {1500, 1}}};

TEST_CASE("add, sub, mul and div on cuda equal the CPU's to the bit, broadcast or not") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      for (const Shapes& s : kShapes) {
        INFO(name_of(dtype), " ", s.a.to_string(), " ", s.b.to_string());
        const Tensor a = random_tensor(s.a, 1, -2, 2, dtype);
        const Tensor b = random_tensor(s.b, 2, 0.5, 2, dtype);
        for (const auto op : {ops::add, ops::sub, ops::mul, ops::div})
          CHECK(relative_difference(to_cpu(op(to_cuda(a), to_cuda(b))), op(a, b)) == 0);
      }
    }
  });
}

TEST_CASE("affine on cuda equals the CPU's") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      for (const int64_t n : {0, 1, 31, 257, 1000}) {
        const Tensor x = random_tensor({n}, 1, -2, 2, dtype);
        CHECK(relative_difference(to_cpu(ops::affine(to_cuda(x), 0.3, -1.7)),
                                  ops::affine(x, 0.3, -1.7)) <= tolerance_of(dtype));
      }
    }
  });
}

TEST_CASE("the gradients of broadcast products and quotients on cuda equal the CPU's") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      for (const Shapes& s : kShapes) {
        INFO(name_of(dtype), " ", s.a.to_string(), " ", s.b.to_string());
        // Of one sign, so that sums do not cancel and the tolerance means something.
        const Tensor a = random_tensor(s.a, 1, 0.5, 2, dtype);
        const Tensor b = random_tensor(s.b, 2, 0.5, 2, dtype);
        const Tensor grad = random_tensor(ops::add(a, b).shape(), 3, 0.5, 2, dtype);
        const auto same = [&](const Shape& shape, bool accumulate, auto&& backward) {
          const Tensor before = random_tensor(shape, 4, 0.5, 2, dtype);
          const Tensor wanted = into(Device::cpu(), before, accumulate,
                                     [&](const Dest& d) { backward(grad, a, b, d); });
          const Tensor got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
            backward(to_cuda(grad), to_cuda(a), to_cuda(b), d);
          });
          return relative_difference(got, wanted) <= tolerance_of(dtype);
        };
        for (const bool accumulate : {false, true}) {
          CHECK(same(s.a, accumulate,
                     [](const Tensor& g, const Tensor&, const Tensor& v, const Dest& d) {
                       ops::mul_backward(g, v, d);
                     }));
          CHECK(same(s.a, accumulate,
                     [](const Tensor& g, const Tensor&, const Tensor& v, const Dest& d) {
                       ops::div_backward_a(g, v, d);
                     }));
          CHECK(same(s.b, accumulate,
                     [](const Tensor& g, const Tensor& u, const Tensor& v, const Dest& d) {
                       ops::div_backward_b(g, u, v, d);
                     }));
        }
      }
    }
  });
}

TEST_CASE("memory that is not aligned to 16 bytes gives the same bits on cuda") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      const Tensor a = random_tensor({1001}, 1, -2, 2, dtype),
                   b = random_tensor({1001}, 2, 1, 2, dtype);
      const Tensor a_on_cuda = to_cuda(a), b_on_cuda = to_cuda(b);
      const Tensor got = ops::div(a_on_cuda.slice(1, 1001), b_on_cuda.slice(0, 1000));
      CHECK(relative_difference(to_cpu(got), ops::div(a.slice(1, 1001), b.slice(0, 1000))) == 0);
    }
  });
}

}  // namespace
}  // namespace lockstep

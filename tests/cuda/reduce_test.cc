#include "lockstep/tensor/ops/reduce.h"

#include "lockstep/tensor/backend.h"
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

constexpr DType kFloating[] = {DType::kF32, DType::kF64, DType::kBF16};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The terms, of one sign, are added up in another order; bf16 rounds the results.
double tolerance_of(DType dtype) {
  return dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 2e-6 : 8e-3;
}

struct Shapes {
  Shape full, part;
};
const std::vector<Shapes> kShapes = {{{}, {}},
                                     {{0}, {}},
                                     {{0}, {0}},
                                     {{1}, {}},
                                     {{31}, {}},
                                     {{257}, {}},
                                     {{1000}, {}},
                                     {{9001}, {}},
                                     {{40, 3}, {3}},
                                     {{40, 3}, {40, 1}},
                                     {{3, 600}, {3, 1}},
                                     {{700, 5}, {5}},
                                     {{33, 65}, {65}},
                                     {{70, 0}, {70, 1}},
                                     {{3, 0}, {0}},
                                     {{4, 5, 6, 7}, {5, 1, 7}},
                                     {{4, 5, 6, 7}, {4, 1, 6, 1}},
                                     {{2, 300, 40}, {2, 1, 40}},
                                     {{300, 17}, {300, 1}}};

TEST_CASE("sums and repetition on cuda equal the CPU's") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      for (const Shapes& s : kShapes) {
        INFO(name_of(dtype), " ", s.full.to_string(), " ", s.part.to_string());
        const Tensor full = random_tensor(s.full, 1, 0.5, 1, dtype);
        const Tensor part = random_tensor(s.part, 2, 0.5, 1, dtype);
        for (const bool accumulate : {false, true}) {
          const Tensor sum = into(Device::cpu(), part, accumulate,
                                  [&](const Dest& d) { ops::sum_to(full, 0.7, d); });
          const Tensor sum_on_cuda = into(Device::cuda(), part, accumulate, [&](const Dest& d) {
            ops::sum_to(to_cuda(full), 0.7, d);
          });
          CHECK(relative_difference(sum_on_cuda, sum) <= tolerance_of(dtype));
          const Tensor repeated = into(Device::cpu(), full, accumulate,
                                       [&](const Dest& d) { ops::broadcast_to(part, 0.7, d); });
          const Tensor repeated_on_cuda =
              into(Device::cuda(), full, accumulate,
                   [&](const Dest& d) { ops::broadcast_to(to_cuda(part), 0.7, d); });
          CHECK(relative_difference(repeated_on_cuda, repeated) <= tolerance_of(dtype));
        }
      }
    }
  });
}

TEST_CASE("a long sum on cuda does not lose small terms") {
  on_cuda_device([] {
    const Tensor x = ops::full({100'001}, 0.1, DType::kF32, Device::cuda());
    CHECK(to_cpu(ops::sum(x)).item() == doctest::Approx(10000.1).epsilon(1e-6));
  });
}

TEST_CASE("max on cuda equals the CPU's to the bit, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      for (const Shape& shape :
           {Shape({1}), Shape({31}), Shape({5000}), Shape({40, 3}), Shape({3, 600}),
            Shape({6, 40, 33}), Shape({0, 4}), Shape({2, 2100, 3})}) {
        for (int dim = shape.ndim() - 1; dim >= 0; --dim) {
          if (shape[dim] == 0) continue;
          INFO(name_of(dtype), " ", shape.to_string(), " dim ", dim);
          // Few values: the first of equal ones is wanted.
          const Tensor x = ops::cast(ops::cast(random_tensor(shape, 1, -9, 9), DType::kI32), dtype);
          const auto wanted = ops::max(x, dim);
          const auto got = ops::max(to_cuda(x), dim);
          CHECK(relative_difference(to_cpu(got.values), wanted.values) == 0);
          CHECK(to_cpu(got.indices).to_vector<int64_t>() == wanted.indices.to_vector<int64_t>());
          const Tensor grad = random_tensor(wanted.values.shape(), 2, -1, 1, dtype);
          const Tensor before = random_tensor(shape, 3, -1, 1, dtype);
          for (const bool accumulate : {false, true}) {
            const Tensor grad_x = into(Device::cpu(), before, accumulate, [&](const Dest& d) {
              ops::max_backward(grad, wanted.indices, dim, d);
            });
            const Tensor on_cuda = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
              ops::max_backward(to_cuda(grad), to_cuda(wanted.indices), dim, d);
            });
            CHECK(relative_difference(on_cuda, grad_x) == 0);
          }
        }
      }
    }
  });
}

TEST_CASE("max on cuda: the first NaN wins, also over infinity and from another thread's part") {
  on_cuda_device([] {
    for (const int64_t n : {2, 40, 5000}) {
      Tensor x = ops::full({n}, kInfinity, DType::kF32);
      for (const int64_t at : {n - 1, n / 2}) {
        Tensor one = x.slice(at, at + 1);
        ops::fill(one, kNan);
        const auto got = ops::max(to_cuda(x), 0);
        CHECK(to_cpu(got.indices).item() == at);
        const double value = to_cpu(got.values).item();
        CHECK(value != value);
      }
    }
  });
}

TEST_CASE("sum_of_squares on cuda equals the CPU's, with NaN too") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      for (const int64_t n : {0, 1, 31, 257, 1000, 40'003}) {
        const Tensor x = random_tensor({n}, 1, -1, 1, dtype);
        Tensor wanted = Tensor::empty({1}, DType::kF64);
        Tensor got = Tensor::empty({1}, DType::kF64, Device::cuda());
        ops::sum_of_squares(x, wanted);
        ops::sum_of_squares(to_cuda(x), got);
        CHECK(relative_difference(to_cpu(got), wanted) <= 1e-13);  // both in f64
      }
    }
    Tensor x = ops::full({300}, 1, DType::kF32);
    x.mutable_data<float>()[299] = static_cast<float>(kNan);
    Tensor total = Tensor::empty({1}, DType::kF64, Device::cuda());
    ops::sum_of_squares(to_cuda(x), total);
    const double value = to_cpu(total).item();
    CHECK(value != value);
  });
}

/// Of the kernel itself: ops::scale_and_check does not wait for a device.
bool scale_and_check_on_cuda(Tensor& x, double factor) {
  Tensor finite = Tensor::empty({1}, DType::kI32, Device::cuda());
  backend(Device::cuda()).reduce.scale_and_check(factor, x, finite);
  return to_cpu(finite).item() != 0;
}

TEST_CASE("one element that is not finite is found wherever it is, and the rest is scaled") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      for (const int64_t n : {1, 17, 10'003}) {
        const Tensor x = random_tensor({n}, 1, -1, 1, dtype);
        Tensor scaled = ops::clone(x), on_cuda = to_cuda(ops::clone(x));
        ops::scale(scaled, 0.3);
        CHECK(ops::all_finite(on_cuda));
        CHECK(scale_and_check_on_cuda(on_cuda, 0.3));
        CHECK(relative_difference(to_cpu(on_cuda), scaled) == 0);
        for (const double bad : {kNan, kInfinity, -kInfinity}) {
          for (const int64_t where : {int64_t{0}, n / 2, n - 1}) {
            INFO(name_of(dtype), " ", n, " at ", where);
            Tensor y = ops::full({n}, 2, dtype);
            Tensor one = y.slice(where, where + 1);
            ops::fill(one, bad);
            Tensor y_on_cuda = to_cuda(y);
            CHECK_FALSE(ops::all_finite(y_on_cuda));
            CHECK_FALSE(scale_and_check_on_cuda(y_on_cuda, 0.5));
            const Tensor wide = ops::cast(to_cpu(y_on_cuda), DType::kF64);
            if (n > 1) CHECK(wide.data<double>()[(where + 1) % n] == 1);
          }
        }
      }
    }
    Tensor none = Tensor::empty({0}, DType::kF32, Device::cuda());
    CHECK(ops::all_finite(none));
    CHECK(scale_and_check_on_cuda(none, 2));
    Tensor large = ops::full({40}, std::numeric_limits<float>::max(), DType::kF32, Device::cuda());
    CHECK(ops::all_finite(large));
    CHECK_FALSE(scale_and_check_on_cuda(large, 4));
  });
}

TEST_CASE("sums on cuda have the same bits wherever the memory begins") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      for (const int64_t n :
           {3, 5, 7, 9, 11, 13, 17, 6001}) {  // few: a rounding is not lost in the sum
        // Thirds, so that every addition rounds.
        const Tensor x = ops::affine(random_tensor({n}, 1, -1, 1, dtype), 1 / 3.0, 0);
        const Tensor shifted = to_cuda(x).slice(1, n);
        const Tensor dense = to_cuda(ops::clone(x.slice(1, n)));
        Tensor a = Tensor::empty({1}, DType::kF64, Device::cuda());
        Tensor b = Tensor::empty({1}, DType::kF64, Device::cuda());
        ops::sum_of_squares(shifted, a);
        ops::sum_of_squares(dense, b);
        CHECK(to_cpu(a).item() == to_cpu(b).item());
        CHECK(to_cpu(ops::sum(shifted)).item() == to_cpu(ops::sum(dense)).item());
      }
    }
  });
}

}  // namespace
}  // namespace lockstep

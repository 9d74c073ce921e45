// Whether all of a tensor is finite, looked at alone and while it is scaled.
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/reduce.h"

#include <doctest/doctest.h>

#include <limits>

namespace lockstep {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("one element that is not finite is found wherever it is, and the rest is scaled") {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (const int64_t size : {1, 17, 100'003}) {  // a rest of a vector; several threads
      CAPTURE(name_of(dtype));
      CAPTURE(size);
      Tensor x = ops::full({size}, -1.5, dtype);
      CHECK(ops::all_finite(x));
      CHECK(ops::scale_and_check(x, 0.5));
      CHECK(ops::cast(x, DType::kF64).data<double>()[size - 1] == -0.75);
      for (const double bad : {kNan, kInfinity, -kInfinity}) {
        for (const int64_t where : {int64_t{0}, size / 2, size - 1}) {
          Tensor y = ops::full({size}, 2, dtype);
          Tensor one = y.slice(where, where + 1);
          ops::fill(one, bad);
          CHECK_FALSE(ops::all_finite(y));
          CHECK_FALSE(ops::scale_and_check(y, 0.5));
          const Tensor wide = ops::cast(y, DType::kF64);
          if (size > 1) CHECK(wide.data<double>()[(where + 1) % size] == 1);
        }
      }
    }
  }
  CHECK(ops::all_finite(Tensor::empty({0}, DType::kF32)));
}

TEST_CASE("the largest numbers are finite, and what overflows is not") {
  Tensor x = ops::full({40}, std::numeric_limits<float>::max(), DType::kF32);
  CHECK(ops::all_finite(x));
  CHECK(ops::scale_and_check(x, 0.5));
  CHECK_FALSE(ops::scale_and_check(x, 4));
  CHECK(ops::scale_and_check(x, 1));  // nothing to do, and nobody looks
  Tensor tiny = ops::full({40}, std::numeric_limits<float>::denorm_min(), DType::kF32);
  CHECK(ops::scale_and_check(tiny, 0.5));
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/ops/random.h"

#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <utility>

namespace lockstep {
namespace {

using namespace testing;

constexpr DType kFloating[] = {DType::kF32, DType::kF64, DType::kBF16};

template <class Draw>
Tensor drawn_on(Device device, int64_t n, DType dtype, Draw draw) {
  Generator rng(99);
  rng.take(5);  // a stream that has been drawn from
  Tensor x = Tensor::empty({n}, dtype, device);
  draw(x, rng);
  draw(x, rng);
  return to_cpu(x);
}

TEST_CASE("uniform numbers on cuda are the CPU's bits") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      for (const int64_t n : {0, 1, 2, 3, 31, 257, 1000, 5003}) {
        for (const auto& [low, high] : {std::pair{0.0, 1.0}, std::pair{-0.1, 0.23}}) {
          INFO(name_of(dtype), " ", n, " from ", low);
          const auto draw = [low = low, high = high](Tensor& x, Generator& rng) {
            ops::uniform(x, low, high, rng);
          };
          // A width that is a power of two leaves nothing to round. Otherwise it is the processor's
          // choice whether product and sum are rounded once, as here, or both.
          const double tolerance = high - low == 1 || __builtin_cpu_supports("fma") ? 0 : 1e-6;
          CHECK(relative_difference(drawn_on(Device::cuda(), n, dtype, draw),
                                    drawn_on(Device::cpu(), n, dtype, draw)) <= tolerance);
        }
      }
    }
  });
}

TEST_CASE("normal numbers on cuda are the CPU's, up to logarithm and cosine") {
  on_cuda_device([] {
    for (const DType dtype : kFloating) {
      const double tolerance = dtype == DType::kBF16 ? 8e-3 : 1e-6;
      for (const int64_t n : {0, 1, 2, 3, 31, 257, 1000, 5003}) {
        const auto draw = [](Tensor& x, Generator& rng) { ops::normal(x, 0.5, 2, rng); };
        INFO(name_of(dtype), " ", n);
        CHECK(relative_difference(drawn_on(Device::cuda(), n, dtype, draw),
                                  drawn_on(Device::cpu(), n, dtype, draw)) <= tolerance);
      }
    }
  });
}

TEST_CASE("numbers on cuda do not depend on where the memory begins") {
  on_cuda_device([] {
    for (const bool normal : {false, true}) {
      Generator rng(1), again(1);
      Tensor memory = Tensor::empty({1001}, DType::kF32, Device::cuda());
      Tensor shifted = memory.slice(1, 1001);
      Tensor dense = Tensor::empty({1000}, DType::kF32, Device::cuda());
      normal ? ops::normal(shifted, 0, 1, rng) : ops::uniform(shifted, 0, 1, rng);
      normal ? ops::normal(dense, 0, 1, again) : ops::uniform(dense, 0, 1, again);
      CHECK(relative_difference(to_cpu(shifted), to_cpu(dense)) == 0);
    }
  });
}

}  // namespace
}  // namespace lockstep

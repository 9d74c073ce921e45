#include "lockstep/tensor/ops/copy.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>

namespace lockstep {
namespace {

using namespace testing;

constexpr DType kFloating[] = {DType::kF32, DType::kF64, DType::kBF16};

TEST_CASE("fill, cast, add_scaled and scale on cuda equal the CPU's") {
  on_cuda_device([] {
    const Device cuda = Device::cuda();
    for (const DType from : kFloating) {
      const Tensor x = random_tensor({7, 43}, 1, -9, 9, from);
      for (const DType to : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kI32}) {
        CHECK(relative_difference(to_cpu(ops::cast(to_cuda(x), to)), ops::cast(x, to)) == 0);
        CHECK(relative_difference(to_cpu(ops::full({3}, 2.6, to, cuda)), ops::full({3}, 2.6, to)) ==
              0);
      }
      // The compilers may contract a product and a sum into one rounding, hence not to the bit.
      const double tolerance = from == DType::kF64 ? 1e-15 : from == DType::kF32 ? 1e-6 : 1e-2;
      Tensor wanted = random_tensor({7, 43}, 2, -9, 9, from);
      Tensor got = to_cuda(wanted);
      ops::add_scaled(to_cuda(x), 0.3, got);
      ops::scale(got, 0.25);
      ops::add_scaled(x, 0.3, wanted);
      ops::scale(wanted, 0.25);
      CHECK(relative_difference(to_cpu(got), wanted) <= tolerance);
    }
  });
}

TEST_CASE("a copy on cuda keeps every bit, of signalling NaNs too") {
  on_cuda_device([] {
    Tensor x = Tensor::empty({9}, DType::kBF16);
    auto* bits = reinterpret_cast<uint16_t*>(x.mutable_raw());
    for (int i = 0; i < 9; ++i) bits[i] = static_cast<uint16_t>(0x7f81 + i);
    const Tensor on_device = to_cuda(x);
    Tensor out = Tensor::empty({9}, DType::kBF16, Device::cuda());
    backend(Device::cuda()).copy.copy(on_device, out);
    const Tensor got = to_cpu(out);
    CHECK(std::memcmp(got.raw(), x.raw(), 18) == 0);
  });
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/ops/dropout.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"
#include "lockstep/tensor/cpu/philox_lanes.h"
#include "lockstep/tensor/cpu/store.h"

namespace lockstep {
namespace {

void apply(const Tensor& x, const DropoutMask& mask, const Dest& y) {
  dispatch_floating(x.dtype(), "dropout", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    constexpr int64_t kStep = 4 * cpu::kPhiloxLanes;
    const T* in = x.data<T>();
    Tensor target = y.out;
    T* out = target.mutable_data<T>();
    const int64_t count = x.numel();
    const C factor = static_cast<C>(mask.factor);
    const bool accumulate = y.accumulate;
    cpu::parallel_for((count + kStep - 1) / kStep, 16, [=](int64_t begin, int64_t end) {
      cpu::PhiloxNumbers numbers;
      for (int64_t step = begin; step < end; ++step) {
        cpu::philox_lanes(mask.range, step * cpu::kPhiloxLanes, numbers);
        const int64_t first = step * kStep;
        const int64_t width = std::min(kStep, count - first);
        // Read whether kept or not, so that the loop is plain vector code.
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) {
          const C scaled = factor * static_cast<C>(in[first + i]);
          const bool kept = (numbers[static_cast<size_t>(i)] >> 8) >= mask.threshold;
          const C value = kept ? scaled : C(0);
          cpu::store(out[first + i], accumulate ? static_cast<C>(out[first + i]) + value : value);
        }
      }
    });
  });
}

}  // namespace

const DropoutKernels kCpuDropout{.apply = apply};

}  // namespace lockstep

#include "lockstep/tensor/ops/dropout.h"

#include "lockstep/tensor/cuda/philox.h"
#include "lockstep/tensor/cuda/tables.h"
#include "lockstep/tensor/dtype.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

template <class T>
struct Dropout {
  using C = compute_t<T>;
  PhiloxRange range;
  uint32_t threshold;
  C factor;
  const T* x;
  T* y;
  bool accumulate;
  template <int N>
  __device__ void run(int64_t i) const {
    const auto numbers = draw<N>(range, i);
    const Pack<T, N> in = load<N>(x + i);
    Pack<T, N> out{};
    if (accumulate) out = load<N>(y + i);
    for (int k = 0; k < N; ++k) {
      const bool kept = (numbers[k] >> 8) >= threshold;
      const C value = kept ? factor * static_cast<C>(in[k]) : C(0);
      out[k] = T(accumulate ? static_cast<C>(out[k]) + value : value);
    }
    store(y + i, out);
  }
};

void apply(const Tensor& x, const DropoutMask& mask, const Dest& y) {
  dispatch_floating(x.dtype(), "dropout", [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = kWidth<T>;
    Tensor target = y.out;
    const Dropout<T> body{
        mask.range,  mask.threshold,           static_cast<compute_t<T>>(mask.factor),
        x.data<T>(), target.mutable_data<T>(), y.accumulate};
    for_each_pack<kPack>(x.numel(), aligned<kPack>(body.x, body.y), body);
  });
}

}  // namespace

const DropoutKernels kDropout{.apply = apply};

}  // namespace lockstep::LOCKSTEP_GPU

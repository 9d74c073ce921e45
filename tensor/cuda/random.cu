#include "lockstep/tensor/ops/random.h"

#include "lockstep/tensor/cuda/philox.h"
#include "lockstep/tensor/cuda/tables.h"

#include <cmath>
#include <numbers>

namespace lockstep::LOCKSTEP_GPU {
namespace {

template <class T>
struct Uniform {
  PhiloxRange range;
  float low;
  float width;
  T* out;
  template <int N>
  __device__ void run(int64_t i) const {
    const auto numbers = draw<N>(range, i);
    Pack<T, N> result;
    // One rounding, as the processors that the CPU's kernels are built for by default.
    for (int k = 0; k < N; ++k)
      result[k] = T(static_cast<compute_t<T>>(std::fma(width, unit_float(numbers[k]), low)));
    store(out + i, result);
  }
};

template <class T>
struct Normal {
  PhiloxRange range;
  float mean;
  float stddev;
  T* out;
  template <int N>
  __device__ void run(int64_t i) const {
    constexpr int kNumbers = N < 2 ? 2 : N;  // pairs make pairs
    const auto numbers = draw<kNumbers>(range, i / kNumbers * kNumbers);
    Pack<float, kNumbers> normal;
    for (int k = 0; k < kNumbers; k += 2) {
      const float one_minus = 1.0f - unit_float(numbers[k]);  // never 0
      const float radius = stddev * std::sqrt(-2.0f * std::log(one_minus));
      const float angle = 2.0f * std::numbers::pi_v<float> * unit_float(numbers[k + 1]);
      normal[k] = mean + radius * std::cos(angle);
      normal[k + 1] = mean + radius * std::sin(angle);
    }
    Pack<T, N> result;
    for (int k = 0; k < N; ++k) {
      const float value = N == 1 && i % 2 != 0 ? normal[1] : normal[k];
      result[k] = T(static_cast<compute_t<T>>(value));
    }
    store(out + i, result);
  }
};

void uniform(const PhiloxRange& range, double low, double high, Tensor& out) {
  dispatch_floating(out.dtype(), "uniform", [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = kWidth<T>;
    const Uniform<T> body{range, static_cast<float>(low), static_cast<float>(high - low),
                          out.mutable_data<T>()};
    for_each_pack<kPack>(out.numel(), aligned<kPack>(body.out), body);
  });
}

void normal(const PhiloxRange& range, double mean, double stddev, Tensor& out) {
  dispatch_floating(out.dtype(), "normal", [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = kWidth<T>;
    const Normal<T> body{range, static_cast<float>(mean), static_cast<float>(stddev),
                         out.mutable_data<T>()};
    for_each_pack<kPack>(out.numel(), aligned<kPack>(body.out), body);
  });
}

}  // namespace

const RandomKernels kRandom{.uniform = uniform, .normal = normal};

}  // namespace lockstep::LOCKSTEP_GPU

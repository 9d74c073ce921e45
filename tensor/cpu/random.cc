#include "lockstep/tensor/ops/random.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"

#include <cmath>
#include <numbers>

namespace lockstep {
namespace {

using cpu::parallel_for;

/// Calls emit(values, i) for every element i; each block of four words is computed once.
template <class T, class Emit>
void fill_by_blocks(const PhiloxRange& range, Tensor& out, Emit emit) {
  T* y = out.mutable_data<T>();
  const int64_t n = out.numel();
  parallel_for((n + 3) / 4, 1024, [=](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const auto words = philox4x32(range.seed, range.first_block + static_cast<uint64_t>(block));
      std::array<double, 4> u;
      for (size_t k = 0; k < 4; ++k) u[k] = static_cast<double>(words[k] >> 8) * 0x1p-24;
      const std::array<double, 4> values = emit(u);
      const int64_t first = block * 4;
      for (int64_t k = 0; k < std::min<int64_t>(4, n - first); ++k) {
        y[first + k] = T(static_cast<compute_t<T>>(values[static_cast<size_t>(k)]));
      }
    }
  });
}

void uniform(const PhiloxRange& range, double low, double high, Tensor& out) {
  dispatch_floating(out.dtype(), "uniform", [&](auto zero) {
    fill_by_blocks<decltype(zero)>(range, out, [=](std::array<double, 4> u) {
      for (double& x : u) x = low + (high - low) * x;
      return u;
    });
  });
}

void normal(const PhiloxRange& range, double mean, double stddev, Tensor& out) {
  dispatch_floating(out.dtype(), "normal", [&](auto zero) {
    fill_by_blocks<decltype(zero)>(range, out, [=](std::array<double, 4> u) {
      for (size_t k = 0; k < 4; k += 2) {
        const double radius = stddev * std::sqrt(-2 * std::log(1 - u[k]));  // 1 - u is never 0
        const double angle = 2 * std::numbers::pi * u[k + 1];
        u[k] = mean + radius * std::cos(angle);
        u[k + 1] = mean + radius * std::sin(angle);
      }
      return u;
    });
  });
}

}  // namespace

const RandomKernels kCpuRandom{.uniform = uniform, .normal = normal};

}  // namespace lockstep

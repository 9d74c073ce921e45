#include "lockstep/tensor/ops/random.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"

#include <array>
#include <Eigen/Core>
#include <numbers>

namespace lockstep {
namespace {

using cpu::parallel_for;

// Numbers are made in chunks of one size, the last one too, so that each takes the same way through
// Eigen's vector code and has the same bits whatever the count and the number of threads.
constexpr int64_t kBlocks = 64;
using Chunk = Eigen::Array<float, 4, kBlocks>;

/// Calls emit(u) on the uniform numbers of each chunk, a column for each block of four, and stores
/// what it leaves there.
template <class T, class Emit>
void fill_by_chunks(const PhiloxRange& range, Tensor& out, Emit emit) {
  T* y = out.mutable_data<T>();
  const int64_t n = out.numel();
  constexpr int64_t kChunk = 4 * kBlocks;
  parallel_for((n + kChunk - 1) / kChunk, 16, [=](int64_t begin, int64_t end) {
    Chunk u;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      for (int64_t b = 0; b < kBlocks; ++b) {
        const auto words =
            philox4x32(range.seed, range.first_block + static_cast<uint64_t>(chunk * kBlocks + b));
        for (int64_t k = 0; k < 4; ++k) {
          u(k, b) = static_cast<float>(words[static_cast<size_t>(k)] >> 8) * 0x1p-24f;
        }
      }
      emit(u);
      const int64_t first = chunk * kChunk;
      for (int64_t i = 0; i < std::min(kChunk, n - first); ++i) {
        y[first + i] = T(static_cast<compute_t<T>>(u.data()[i]));
      }
    }
  });
}

void uniform(const PhiloxRange& range, double low, double high, Tensor& out) {
  dispatch_floating(out.dtype(), "uniform", [&](auto zero) {
    const auto from = static_cast<float>(low), width = static_cast<float>(high - low);
    fill_by_chunks<decltype(zero)>(range, out, [=](Chunk& u) { u = from + width * u; });
  });
}

void normal(const PhiloxRange& range, double mean, double stddev, Tensor& out) {
  dispatch_floating(out.dtype(), "normal", [&](auto zero) {
    const auto m = static_cast<float>(mean), s = static_cast<float>(stddev);
    fill_by_chunks<decltype(zero)>(range, out, [=](Chunk& u) {
      using Pairs = Eigen::Map<Eigen::Array<float, 2, 2 * kBlocks>>;
      using Half = Eigen::Array<float, 2 * kBlocks, 1>;
      Pairs pairs(u.data());
      const Half one_minus = 1 - pairs.row(0).transpose();  // never 0
      const Half radius = s * (-2 * one_minus.log()).sqrt();
      const Half angle = 2 * std::numbers::pi_v<float> * pairs.row(1).transpose();
      pairs.row(0) = (m + radius * angle.cos()).transpose();
      pairs.row(1) = (m + radius * angle.sin()).transpose();
    });
  });
}

}  // namespace

const RandomKernels kCpuRandom{.uniform = uniform, .normal = normal};

}  // namespace lockstep

// Batch normalisation. Training is two passes over memory forward (statistics, then all the rest)
// and two backward (sums, then all the rest); the inner loops run over channels, which lie side by
// side.
//
// Sums are taken over blocks of a few rows in the images' compute type, then in double from block
// to block: f32 alone would lose digits over the million rows of a large image batch. Blocks depend
// on the shape alone, so results do not depend on the number of threads.
#include "lockstep/tensor/ops/norm.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"
#include "lockstep/tensor/cpu/store.h"

#include <cmath>
#include <type_traits>

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;

constexpr int64_t kBlockRows = 64;
constexpr int64_t kMaxChunks = 64;
constexpr int64_t kTile = 256;  // channels whose running sums stay in the first-level cache

template <class Fn>
void with_bool(bool value, Fn&& fn) {
  if (value) {
    fn(std::true_type{});
  } else {
    fn(std::false_type{});
  }
}

/// x [..., C] as a matrix, cut into chunks of whole blocks for the sums.
struct Rows {
  int64_t channels, rows, chunks, chunk_rows;

  explicit Rows(const Shape& x)
      : channels(x.dim(-1)), rows(channels == 0 ? 0 : x.numel() / channels) {
    const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    const int64_t per_chunk = (blocks + kMaxChunks - 1) / kMaxChunks;
    chunk_rows = std::max<int64_t>(per_chunk, 1) * kBlockRows;
    chunks = (rows + chunk_rows - 1) / chunk_rows;
  }

  /// Calls fn(chunk, first row, last row).
  template <class Fn>
  void each_chunk(Fn&& fn) const {
    const int64_t work = std::max<int64_t>(channels * chunk_rows, 1);
    parallel_for(chunks, std::max<int64_t>(kGrain / work, 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        fn(i, i * chunk_rows, std::min(rows, (i + 1) * chunk_rows));
    });
  }

  /// Calls fn(first, last) for pieces of the rows.
  template <class Fn>
  void each_piece(Fn&& fn) const {
    parallel_for(rows, std::max<int64_t>(kGrain / std::max<int64_t>(channels, 1), 1), fn);
  }
};

/// Two doubles for every chunk and channel.
struct Partials {
  Tensor memory;
  double* values;
  int64_t channels;

  explicit Partials(const Rows& r)
      : memory(Tensor::empty({r.chunks, 2, r.channels}, DType::kF64)),
        values(memory.mutable_data<double>()),
        channels(r.channels) {}
  double* first(int64_t chunk) const { return values + 2 * chunk * channels; }
  double* second(int64_t chunk) const { return first(chunk) + channels; }
};

/// Adds one chunk's rows to (mean, m2): the mean and the sum of squared differences from it, block
/// by block (Chan, Golub and LeVeque, "Algorithms for computing the sample variance", 1983). Within
/// a block values are taken relative to its first row, so that a large mean cancels before anything
/// is squared.
template <class T>
void chunk_moments(const T* x, int64_t channels, int64_t rows, int64_t width, double* mean,
                   double* m2) {
  using C = compute_t<T>;
  for (int64_t block = 0; block < rows; block += kBlockRows) {
    const int64_t count = std::min(kBlockRows, rows - block);
    C shift[kTile], sum[kTile], square[kTile];
    const T* row = x + block * channels;
    for (int64_t c = 0; c < width; ++c) {
      shift[c] = static_cast<C>(row[c]);
      sum[c] = square[c] = 0;
    }
    int64_t r = 1;
    for (; r + 4 <= count; r += 4) {
      const T* a = row + r * channels;
      const T* b = a + channels;
      const T* d = b + channels;
      const T* e = d + channels;
      for (int64_t c = 0; c < width; ++c) {
        const C k = shift[c];
        const C va = static_cast<C>(a[c]) - k, vb = static_cast<C>(b[c]) - k;
        const C vd = static_cast<C>(d[c]) - k, ve = static_cast<C>(e[c]) - k;
        sum[c] += (va + vb) + (vd + ve);
        square[c] += (va * va + vb * vb) + (vd * vd + ve * ve);
      }
    }
    for (; r < count; ++r) {
      const T* a = row + r * channels;
      for (int64_t c = 0; c < width; ++c) {
        const C v = static_cast<C>(a[c]) - shift[c];
        sum[c] += v;
        square[c] += v * v;
      }
    }
    const double n = static_cast<double>(count);
    const double before = static_cast<double>(block);
    const double share = n / (before + n);
    for (int64_t c = 0; c < width; ++c) {
      const double of_block = static_cast<double>(sum[c]) / n;
      const double delta = static_cast<double>(shift[c]) + of_block - mean[c];
      mean[c] += delta * share;
      m2[c] += static_cast<double>(square[c]) - of_block * static_cast<double>(sum[c]) +
               delta * delta * before * share;
    }
  }
}

template <class T>
void moments_of(const T* x, const Rows& r, compute_t<T>* mean, compute_t<T>* variance) {
  const Partials partials(r);
  r.each_chunk([&](int64_t chunk, int64_t begin, int64_t end) {
    double* means = partials.first(chunk);
    std::fill(means, means + 2 * r.channels, 0.0);
    for (int64_t tile = 0; tile < r.channels; tile += kTile) {
      chunk_moments(x + begin * r.channels + tile, r.channels, end - begin,
                    std::min(kTile, r.channels - tile), means + tile,
                    partials.second(chunk) + tile);
    }
  });
  parallel_for(r.channels, 256, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      double total_mean = 0, m2 = 0;
      for (int64_t chunk = 0; chunk < r.chunks; ++chunk) {
        const double before = static_cast<double>(chunk * r.chunk_rows);
        const double n = static_cast<double>(std::min(r.chunk_rows, r.rows - chunk * r.chunk_rows));
        const double delta = partials.first(chunk)[c] - total_mean;
        total_mean += delta * n / (before + n);
        m2 += partials.second(chunk)[c] + delta * delta * before * n / (before + n);
      }
      mean[c] = static_cast<compute_t<T>>(total_mean);
      variance[c] = static_cast<compute_t<T>>(std::max(m2, 0.0) / static_cast<double>(r.rows));
    }
  });
}

void moments(const Tensor& x, Tensor& mean, Tensor& variance) {
  dispatch_floating(x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    moments_of(x.data<T>(), Rows(x.shape()), mean.mutable_data<C>(), variance.mutable_data<C>());
  });
}

void invstd(const Tensor& variance, double eps, Tensor& out) {
  dispatch_floating(variance.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    const T* v = variance.data<T>();
    T* y = out.mutable_data<T>();
    for (int64_t c = 0; c < variance.numel(); ++c) {
      y[c] = T(static_cast<compute_t<T>>(
          1.0 / std::sqrt(static_cast<double>(static_cast<compute_t<T>>(v[c])) + eps)));
    }
  });
}

void update_running(const Tensor& batch, double momentum, double factor, Tensor& running) {
  dispatch_floating(batch.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* b = batch.data<T>();
    T* r = running.mutable_data<T>();
    for (int64_t c = 0; c < batch.numel(); ++c) {
      const double before = static_cast<double>(static_cast<C>(r[c]));
      r[c] = T(static_cast<C>(
          before + momentum * (factor * static_cast<double>(static_cast<C>(b[c])) - before)));
    }
  });
}

void apply(const BatchNormInputs& in, const Tensor& weight, const Tensor& bias,
           const Tensor& residual, bool relu, Tensor& y) {
  const Rows r(in.x.shape());
  dispatch_floating(in.x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Tensor factors = Tensor::empty({r.channels}, dtype_of<C>);
    C* factor = factors.mutable_data<C>();
    for (int64_t c = 0; c < r.channels; ++c)
      factor[c] = in.invstd.data<C>()[c] * weight.data<C>()[c];
    const C* __restrict mean = in.mean.data<C>();
    const C* __restrict scale = factor;
    const C* __restrict shift = bias.data<C>();
    const T* __restrict x = in.x.data<T>();
    const T* __restrict add = residual.defined() ? residual.data<T>() : nullptr;
    T* out = y.mutable_data<T>();
    with_bool(residual.defined(), [&](auto has_residual) {
      with_bool(relu, [&](auto clip) {
        r.each_piece([=](int64_t first, int64_t last) {
          for (int64_t row = first; row < last; ++row) {
            const int64_t at = row * r.channels;
            T* __restrict to = out + at;
            for (int64_t c = 0; c < r.channels; ++c) {
              C v = (static_cast<C>(x[at + c]) - mean[c]) * scale[c] + shift[c];
              if constexpr (has_residual) v += static_cast<C>(add[at + c]);
              if constexpr (clip) v = v < C(0) ? C(0) : v;  // NaN compares false and stays
              to[c] = T(v);
            }
          }
        });
      });
    });
  });
}

/// Where g goes while it is summed.
enum class Residual { kNone, kWrite, kAdd };

/// Adds the sums of g and g * (x - mean) over one chunk's rows to `sums` and `products`.
template <class T, bool kMasked, Residual kResidual>
void chunk_sums(const T* g, const T* y, const T* x, const compute_t<T>* mean, T* residual,
                int64_t channels, int64_t rows, int64_t width, double* sums, double* products) {
  using C = compute_t<T>;
  C center[kTile];
  std::copy(mean, mean + width, center);
  for (int64_t block = 0; block < rows; block += kBlockRows) {
    C sum[kTile] = {}, product[kTile] = {};
    const int64_t end = std::min(rows, block + kBlockRows);
    for (int64_t row = block; row < end; ++row) {
      const int64_t at = row * channels;
      for (int64_t c = 0; c < width; ++c) {
        C v = static_cast<C>(g[at + c]);
        if constexpr (kMasked) v = static_cast<C>(y[at + c]) > C(0) ? v : C(0);
        if constexpr (kResidual == Residual::kWrite) residual[at + c] = T(v);
        if constexpr (kResidual == Residual::kAdd)
          residual[at + c] = T(static_cast<C>(residual[at + c]) + v);
        sum[c] += v;
        product[c] += v * (static_cast<C>(x[at + c]) - center[c]);
      }
    }
    for (int64_t c = 0; c < width; ++c) {
      sums[c] += static_cast<double>(sum[c]);
      products[c] += static_cast<double>(product[c]);
    }
  }
}

void backward_sums(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                   Tensor& sum_grad, Tensor& sum_grad_xhat, const Dest& grad_residual) {
  const Rows r(in.x.shape());
  const Partials partials(r);
  dispatch_floating(in.x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* g = grad_y.data<T>();
    const T* x = in.x.data<T>();
    const T* out = y.defined() ? y.data<T>() : nullptr;
    Tensor residual = grad_residual.out;
    T* to = residual.defined() ? residual.mutable_data<T>() : nullptr;
    auto* kernel =
        to == nullptr
            ? (out ? chunk_sums<T, true, Residual::kNone> : chunk_sums<T, false, Residual::kNone>)
        : grad_residual.accumulate
            ? (out ? chunk_sums<T, true, Residual::kAdd> : chunk_sums<T, false, Residual::kAdd>)
            : (out ? chunk_sums<T, true, Residual::kWrite>
                   : chunk_sums<T, false, Residual::kWrite>);
    const C* mean = in.mean.data<C>();
    r.each_chunk([&](int64_t chunk, int64_t begin, int64_t end) {
      double* sums = partials.first(chunk);
      std::fill(sums, sums + 2 * r.channels, 0.0);
      for (int64_t tile = 0; tile < r.channels; tile += kTile) {
        const int64_t at = begin * r.channels + tile;
        kernel(g + at, out ? out + at : nullptr, x + at, mean + tile, to ? to + at : nullptr,
               r.channels, end - begin, std::min(kTile, r.channels - tile), sums + tile,
               partials.second(chunk) + tile);
      }
    });
    C* sum = sum_grad.mutable_data<C>();
    C* sum_xhat = sum_grad_xhat.mutable_data<C>();
    const C* deviation = in.invstd.data<C>();
    for (int64_t c = 0; c < r.channels; ++c) {
      double total = 0, product = 0;
      for (int64_t chunk = 0; chunk < r.chunks; ++chunk) {
        total += partials.first(chunk)[c];
        product += partials.second(chunk)[c];
      }
      sum[c] = static_cast<C>(total);
      sum_xhat[c] = static_cast<C>(product * static_cast<double>(deviation[c]));
    }
  });
}

void backward_data(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                   const Tensor& weight, const Tensor& sum_grad, const Tensor& sum_grad_xhat,
                   double count, const Dest& grad_x) {
  const Rows r(in.x.shape());
  dispatch_floating(in.x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    // grad_x = scale * g - offset - slope * (x - mean), from d/dx of w * (x - mean(x)) * invstd(x).
    Tensor factors = Tensor::empty({3, r.channels}, dtype_of<C>);
    C* values = factors.mutable_data<C>();
    for (int64_t c = 0; c < r.channels; ++c) {
      const C deviation = in.invstd.data<C>()[c];
      const C scale = weight.data<C>()[c] * deviation;
      const C n = static_cast<C>(count);
      values[c] = scale;
      values[r.channels + c] = sum_grad.defined() ? scale * sum_grad.data<C>()[c] / n : C(0);
      values[2 * r.channels + c] =
          sum_grad_xhat.defined() ? scale * deviation * sum_grad_xhat.data<C>()[c] / n : C(0);
    }
    const C* __restrict scale = values;
    const C* __restrict offset = values + r.channels;
    const C* __restrict slope = values + 2 * r.channels;
    const C* __restrict mean = in.mean.data<C>();
    const T* __restrict x = in.x.data<T>();
    const T* __restrict out = y.defined() ? y.data<T>() : nullptr;
    const T* g = grad_y.data<T>();  // may be grad_x's own memory, when x is also the residual
    Tensor target = grad_x.out;
    T* dx = target.mutable_data<T>();
    with_bool(y.defined(), [&](auto masked) {
      with_bool(grad_x.accumulate, [&](auto accumulate) {
        r.each_piece([=](int64_t first, int64_t last) {
          for (int64_t row = first; row < last; ++row) {
            const int64_t at = row * r.channels;
#pragma omp simd
            for (int64_t c = 0; c < r.channels; ++c) {
              C v = static_cast<C>(g[at + c]);
              if constexpr (masked) v = static_cast<C>(out[at + c]) > C(0) ? v : C(0);
              v = scale[c] * v - offset[c] - slope[c] * (static_cast<C>(x[at + c]) - mean[c]);
              if constexpr (accumulate) v += static_cast<C>(dx[at + c]);
              cpu::store(dx[at + c], v);
            }
          }
        });
      });
    });
  });
}

}  // namespace

const NormKernels kCpuNorm{.moments = moments,
                           .invstd = invstd,
                           .update_running = update_running,
                           .apply = apply,
                           .backward_sums = backward_sums,
                           .backward_data = backward_data};

}  // namespace lockstep

// residual + dropout(x + x_bias), normalised row by row: one kernel each way. Forward writes a row
// of the sum and reads it again from a cache. Backward's blocks take the rows of a chunk one after
// the other; a thread has the same columns of each, so that the gradients of weight, bias and
// x_bias gather in its registers. The number of chunks depends on the shape alone, and their sums
// are added up by a fold.
#include "lockstep/tensor/cuda/add_norm.h"

#include "lockstep/tensor/cuda/column_sums.h"
#include "lockstep/tensor/cuda/philox.h"
#include "lockstep/tensor/cuda/rows.h"

#include <algorithm>
#include <cmath>

namespace lockstep::LOCKSTEP_GPU {
namespace {

/// Two sums that a team makes at once.
template <class C>
struct Pair {
  C a, b;
  __device__ Pair operator+(const Pair& other) const { return {a + other.a, b + other.b}; }
};
template <class C>
__device__ Pair<C> of_lane(const Pair<C>& v, int bits) {
  return {__shfl_xor_sync(kFullWarp, v.a, bits), __shfl_xor_sync(kFullWarp, v.b, bits)};
}

/// values[k] = dropout of values[k], which is element i + k.
template <int N, class C>
__device__ void drop(const DropoutMask& mask, int64_t i, Pack<C, N>& values) {
  if (mask.factor == 1) return;
  const auto numbers = draw<N>(mask.range, i);
  const C factor = static_cast<C>(mask.factor);
  for (int k = 0; k < N; ++k)
    values[k] = (numbers[k] >> 8) >= mask.threshold ? factor * values[k] : C(0);
}

template <class T>
struct Forward {
  using C = compute_t<T>;
  const T* x;
  const C* x_bias;  // may be null
  const T* residual;
  DropoutMask mask;
  const C* weight;
  const C* bias;
  double eps;
  int64_t rows, width;
  T* sum;
  T* y;  // may be sum
  C* mean;
  C* rstd;
};

template <class Team, int N, class T>
__global__ void forward_kernel(Forward<T> p) {
  using C = compute_t<T>;
  const int64_t row = Team::row();
  if (row >= p.rows) return;
  constexpr int64_t kStep = int64_t{Team::kThreads} * N;
  const int64_t begin = row * p.width, from = int64_t{Team::rank()} * N;
  const C count = static_cast<C>(p.width);
  C own = C(0);
  for (int64_t c = from; c < p.width; c += kStep) {
    const Pack<T, N> in = load<N>(p.x + begin + c), to = load<N>(p.residual + begin + c);
    Pack<C, N> values;
    for (int k = 0; k < N; ++k) values[k] = static_cast<C>(in[k]);
    if (p.x_bias != nullptr) {
      const Pack<C, N> added = load<N>(p.x_bias + c);
      for (int k = 0; k < N; ++k) values[k] += added[k];
    }
    drop(p.mask, begin + c, values);
    Pack<T, N> sum;
    for (int k = 0; k < N; ++k) {
      sum[k] = T(static_cast<C>(to[k]) + values[k]);
      own += static_cast<C>(sum[k]);
    }
    store(p.sum + begin + c, sum);
  }
  // A mean that is large beside the deviation is rounded in such a sum; the second look corrects
  // it.
  const C near = Team::sum(own) / count;
  Pair<C> off{C(0), C(0)};
  for (int64_t c = from; c < p.width; c += kStep) {
    const Pack<T, N> sum = load<N>(p.sum + begin + c);
    for (int k = 0; k < N; ++k) {
      const C d = static_cast<C>(sum[k]) - near;
      off.a += d;
      off.b += d * d;
    }
  }
  off = Team::sum(off);
  const C shift = off.a / count;
  const C m = near + shift;
  const C variance = off.b / count - shift * shift;
  const C r = static_cast<C>(1 / std::sqrt(std::fmax(static_cast<double>(variance), 0.0) + p.eps));
  if (Team::rank() == 0) p.mean[row] = m, p.rstd[row] = r;
  for (int64_t c = from; c < p.width; c += kStep) {
    const Pack<T, N> sum = load<N>(p.sum + begin + c);
    const Pack<C, N> w = load<N>(p.weight + c), b = load<N>(p.bias + c);
    Pack<T, N> y;
    for (int k = 0; k < N; ++k) y[k] = T((static_cast<C>(sum[k]) - m) * r * w[k] + b[k]);
    store(p.y + begin + c, y);
  }
}

template <class T>
struct Backward {
  using C = compute_t<T>;
  const T* grad_y;
  const T* sum;
  DropoutMask mask;
  const C* weight;
  const C* mean;
  const C* rstd;
  int64_t rows, width;
  T* grad_x;  // null: not wanted
  bool add_x;
  T* grad_residual;  // null: not wanted
  bool add_residual;
  int vectors;  // that get sums: weight and bias, or these and x_bias
  C* partial;   // [chunks, vectors, width]; null: none
};

/// to[k] (+)= values[k].
template <int N, class T>
__device__ void put(const Pack<compute_t<T>, N>& values, T* to, bool accumulate) {
  using C = compute_t<T>;
  Pack<T, N> result{};
  if (accumulate) result = load<N>(to);
  for (int k = 0; k < N; ++k)
    result[k] = T(accumulate ? static_cast<C>(result[k]) + values[k] : values[k]);
  store(to, result);
}

constexpr int kSweeps = 2;  // packs of columns for which a thread has registers

/// Chunk blockIdx.x of the rows and band blockIdx.y of the columns. All of a row is read for its
/// two sums; only very long rows have several bands, and are read once for each.
template <int N, class T>
__global__ void backward_kernel(Backward<T> p) {
  using C = compute_t<T>;
  using Block = Team<kBlockWarps>;
  constexpr int64_t kStep = int64_t{kBlock} * N;
  const int64_t from = int64_t{threadIdx.x} * N;
  const int64_t band = blockIdx.y * kSweeps * kStep + from;
  const int64_t last = p.rows * (int64_t{blockIdx.x} + 1) / gridDim.x;
  const C count = static_cast<C>(p.width);
  Pack<C, N> of_weight[kSweeps]{}, of_bias[kSweeps]{}, of_x_bias[kSweeps]{};
  for (int64_t row = p.rows * blockIdx.x / gridDim.x; row < last; ++row) {
    const int64_t begin = row * p.width;
    const C m = p.mean[row], r = p.rstd[row];
    Pair<C> own{C(0), C(0)};
    for (int64_t c = from; c < p.width; c += kStep) {
      const Pack<T, N> g = load<N>(p.grad_y + begin + c), sum = load<N>(p.sum + begin + c);
      const Pack<C, N> w = load<N>(p.weight + c);
      for (int k = 0; k < N; ++k) {
        const C weighted = static_cast<C>(g[k]) * w[k];
        own.a += weighted;
        own.b += weighted * (static_cast<C>(sum[k]) - m);
      }
    }
    own = Block::sum(own);
    const C offset = own.a / count, slope = own.b * r / count;
#pragma unroll
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      const int64_t c = band + sweep * kStep;
      if (c >= p.width) continue;
      const Pack<T, N> g = load<N>(p.grad_y + begin + c), sum = load<N>(p.sum + begin + c);
      const Pack<C, N> w = load<N>(p.weight + c);
      Pack<C, N> values;
      for (int k = 0; k < N; ++k) {
        const C grad = static_cast<C>(g[k]), normal = (static_cast<C>(sum[k]) - m) * r;
        of_weight[sweep][k] += grad * normal;
        of_bias[sweep][k] += grad;
        values[k] = r * (grad * w[k] - offset - normal * slope);
      }
      if (p.grad_residual != nullptr)
        put<N, T>(values, p.grad_residual + begin + c, p.add_residual);
      if (p.grad_x == nullptr && p.vectors < 3) continue;
      drop(p.mask, begin + c, values);
      for (int k = 0; k < N; ++k) of_x_bias[sweep][k] += values[k];
      if (p.grad_x != nullptr) put<N, T>(values, p.grad_x + begin + c, p.add_x);
    }
  }
  if (p.partial == nullptr) return;
#pragma unroll
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    const int64_t c = band + sweep * kStep;
    if (c >= p.width) continue;
    C* to = p.partial + int64_t{blockIdx.x} * p.vectors * p.width + c;
    store(to, of_weight[sweep]);
    store(to + p.width, of_bias[sweep]);
    if (p.vectors == 3) store(to + 2 * p.width, of_x_bias[sweep]);
  }
}

template <class C>
struct OfChunk {
  const C* partial;
  __device__ double operator()(int64_t i, int64_t) const { return static_cast<double>(partial[i]); }
};

template <class T>
T* out_or_null(const Dest& dest) {
  Tensor out = dest.out;
  return out.defined() ? out.mutable_data<T>() : nullptr;
}

}  // namespace

void add_norm(const Tensor& x, const Tensor& x_bias, const Tensor& residual,
              const DropoutMask& mask, const Tensor& weight, const Tensor& bias, double eps,
              Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd) {
  if (x.numel() == 0) return;
  dispatch_floating(x.dtype(), "dropout_add_layer_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const Forward<T> p{.x = x.data<T>(),
                       .x_bias = x_bias.defined() ? x_bias.data<C>() : nullptr,
                       .residual = residual.data<T>(),
                       .mask = mask,
                       .weight = weight.data<C>(),
                       .bias = bias.data<C>(),
                       .eps = eps,
                       .rows = mean.numel(),
                       .width = weight.numel(),
                       .sum = sum.mutable_data<T>(),
                       .y = y.mutable_data<T>(),
                       .mean = mean.mutable_data<C>(),
                       .rstd = rstd.mutable_data<C>()};
    constexpr int kPack = kWidth<T>;
    const bool packs = p.width % kPack == 0 &&
                       aligned<kPack>(p.x, p.x_bias, p.residual, p.weight, p.bias, p.sum, p.y);
    with_team(p.width, [&](auto team) {
      using Team = decltype(team);
      launch(packs ? forward_kernel<Team, kPack, T> : forward_kernel<Team, 1, T>,
             Team::grid(p.rows), dim3(kBlock), p);
    });
  });
}

void add_norm_backward(const Tensor& grad_y, const Tensor& sum, const DropoutMask& mask,
                       const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                       const Dest& grad_x, const Dest& grad_residual, Tensor& sums) {
  dispatch_floating(sum.dtype(), "dropout_add_layer_norm_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const int64_t rows = mean.numel(), width = weight.numel();
    // Four blocks for each multiprocessor of the largest GPU, if they have four rows each.
    const int64_t chunks = std::clamp<int64_t>(rows / 4, 1, 512);
    const int64_t vectors = sums.defined() ? sums.dim(0) : 0;
    Tensor partial;
    if (vectors > 0) partial = Tensor::empty({chunks, vectors, width}, sums.dtype(), sums.device());
    const Backward<T> p{.grad_y = grad_y.data<T>(),
                        .sum = sum.data<T>(),
                        .mask = mask,
                        .weight = weight.data<C>(),
                        .mean = mean.data<C>(),
                        .rstd = rstd.data<C>(),
                        .rows = rows,
                        .width = width,
                        .grad_x = out_or_null<T>(grad_x),
                        .add_x = grad_x.accumulate,
                        .grad_residual = out_or_null<T>(grad_residual),
                        .add_residual = grad_residual.accumulate,
                        .vectors = static_cast<int>(vectors),
                        .partial = partial.defined() ? partial.mutable_data<C>() : nullptr};
    constexpr int kPack = kWidth<T, C>;  // several of C for each of T: more would take registers
    const bool packs = width % kPack == 0 && aligned<kPack>(p.grad_y, p.sum, p.weight, p.grad_x,
                                                            p.grad_residual, p.partial);
    const auto bands = [&](int64_t pack) { return blocks_for(width, kSweeps * kBlock * pack); };
    launch(packs ? backward_kernel<kPack, T> : backward_kernel<1, T>,
           dim3(static_cast<unsigned>(chunks), bands(packs ? kPack : 1)), dim3(kBlock), p);
    if (vectors == 0) return;
    column_sums<double>(chunks, vectors * width, OfChunk<C>{partial.data<C>()},
                        sums.mutable_data<C>(), false);
  });
}

}  // namespace lockstep::LOCKSTEP_GPU

// Layer and group normalisation. A unit, one group of one sample, belongs to a warp or a block; the
// second and third look at it find it in a cache. The gradients of weight and bias are a pass of
// their own: blocks add up columns over chunks of the rows, whose number depends on the shape
// alone, and a second launch adds up the chunks.
#include "lockstep/tensor/ops/group_norm.h"

#include "lockstep/tensor/cuda/add_norm.h"
#include "lockstep/tensor/cuda/column_sums.h"
#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/rows.h"
#include "lockstep/tensor/cuda/tables.h"

#include <algorithm>

namespace lockstep::LOCKSTEP_GPU {
namespace {

/// The elements of unit number `number`: `positions` runs of `width` neighbours.
struct Unit {
  int64_t begin, positions, width, pitch, channel;

  __device__ Unit(const GroupNormExtents& e, int64_t number)
      : begin(number / e.groups * e.positions * e.channels +
              number % e.groups * (e.channels / e.groups)),
        positions(e.positions),
        width(e.channels / e.groups),
        pitch(e.channels),
        channel(number % e.groups * width) {}
  __device__ int64_t size() const { return positions * width; }
  __device__ bool contiguous() const { return positions == 1 || width == pitch; }
  __device__ int64_t channel_of(int64_t i) const {
    return channel + (positions == 1 ? i : i % width);
  }
  __device__ int64_t offset_of(int64_t i) const { return begin + i / width * pitch + i % width; }

  /// Calls fn(channel, x[i]...) for a thread's share of the elements.
  template <class Team, class Fn, class T, class... More>
  __device__ void read(Fn&& fn, const T* x, const More*... more) const {
    using C = compute_t<T>;
    if (contiguous()) {
      read_row<Team>(
          size(), [&](int64_t i, auto... v) { fn(channel_of(i), v...); }, x + begin,
          (more + begin)...);
      return;
    }
    for (int64_t i = Team::rank(); i < size(); i += Team::kThreads) {
      const int64_t at = offset_of(i);
      fn(channel_of(i), static_cast<C>(x[at]), static_cast<C>(more[at])...);
    }
  }
  /// out[i] (+)= fn(channel, x[i]...).
  template <class Team, class Fn, class T, class... In>
  __device__ void map(bool accumulate, T* out, Fn&& fn, const In*... x) const {
    using C = compute_t<T>;
    if (contiguous()) {
      map_row<Team>(
          size(), accumulate, out + begin,
          [&](int64_t i, auto... v) { return fn(channel_of(i), v...); }, (x + begin)...);
      return;
    }
    for (int64_t i = Team::rank(); i < size(); i += Team::kThreads) {
      const int64_t at = offset_of(i);
      const C v = fn(channel_of(i), static_cast<C>(x[at])...);
      out[at] = T(accumulate ? static_cast<C>(out[at]) + v : v);
    }
  }
};

template <class Team, class T>
__global__ void forward_kernel(GroupNormExtents e, const T* x, const compute_t<T>* weight,
                               const compute_t<T>* bias, double eps, T* y, compute_t<T>* mean,
                               compute_t<T>* rstd) {
  using C = compute_t<T>;
  const int64_t number = Team::row();
  if (number >= e.samples * e.groups) return;
  const Unit unit(e, number);
  const C count = static_cast<C>(unit.size() > 0 ? unit.size() : 1);
  // Relative to an element: a mean that is large beside the deviation must not be rounded away.
  const C near = unit.size() > 0 ? static_cast<C>(x[unit.begin]) : C(0);
  C own = C(0);
  unit.read<Team>([&](int64_t, C v) { own += v - near; }, x);
  const C m = near + Team::sum(own) / count;
  C own_squares = C(0);
  unit.read<Team>([&](int64_t, C v) { own_squares += (v - m) * (v - m); }, x);
  const C variance = Team::sum(own_squares) / count;
  const C r = static_cast<C>(1 / std::sqrt(static_cast<double>(variance) + eps));
  if (Team::rank() == 0) mean[number] = m, rstd[number] = r;
  unit.map<Team>(
      false, y, [&](int64_t c, C v) { return (v - m) * r * weight[c] + bias[c]; }, x);
}

/// grad_x = rstd (g w - mean(g w) - xhat mean(g w xhat)).
template <class Team, class T>
__global__ void backward_kernel(GroupNormExtents e, const T* grad_y, const T* x,
                                const compute_t<T>* weight, const compute_t<T>* mean,
                                const compute_t<T>* rstd, T* grad_x, bool accumulate) {
  using C = compute_t<T>;
  const int64_t number = Team::row();
  if (number >= e.samples * e.groups) return;
  const Unit unit(e, number);
  const C count = static_cast<C>(unit.size() > 0 ? unit.size() : 1);
  const C m = mean[number];
  const C r = rstd[number];
  C own_sum = C(0);
  C own_product = C(0);
  unit.read<Team>(
      [&](int64_t c, C g, C v) {
        own_sum += g * weight[c];
        own_product += g * weight[c] * (v - m);
      },
      grad_y, x);
  const C offset = Team::sum(own_sum) / count;
  const C slope = Team::sum(own_product) * r / count;
  unit.map<Team>(
      accumulate, grad_x,
      [&](int64_t c, C g, C v) { return r * (g * weight[c] - offset - (v - m) * r * slope); },
      grad_y, x);
}

/// partial [chunks, 2, channels]: the sums of g * xhat and of g over chunk blockIdx.y of the rows.
template <class T>
__global__ void parameter_sums_kernel(GroupNormExtents e, const T* grad_y, const T* x,
                                      const compute_t<T>* mean, const compute_t<T>* rstd,
                                      compute_t<T>* partial) {
  using C = compute_t<T>;
  LOCKSTEP_SHARED(C, of_weight, [kSumRows][kSumColumns]);
  LOCKSTEP_SHARED(C, of_bias, [kSumRows][kSumColumns]);
  const int64_t channel = int64_t{blockIdx.x} * kSumColumns + threadIdx.x;
  const int64_t rows = e.samples * e.positions;
  const int64_t end = rows * (blockIdx.y + 1) / gridDim.y;
  C weight = C(0);
  C bias = C(0);
  if (channel < e.channels) {
    const int64_t group = channel / (e.channels / e.groups);
    for (int64_t row = rows * blockIdx.y / gridDim.y + threadIdx.y; row < end; row += kSumRows) {
      const int64_t unit = row / e.positions * e.groups + group;
      const C g = static_cast<C>(grad_y[row * e.channels + channel]);
      weight += g * ((static_cast<C>(x[row * e.channels + channel]) - mean[unit]) * rstd[unit]);
      bias += g;
    }
  }
  of_weight[threadIdx.y][threadIdx.x] = weight;
  of_bias[threadIdx.y][threadIdx.x] = bias;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= e.channels) return;
  for (int i = 1; i < kSumRows; ++i) {
    weight += of_weight[i][threadIdx.x];
    bias += of_bias[i][threadIdx.x];
  }
  partial[2 * blockIdx.y * e.channels + channel] = weight;
  partial[(2 * blockIdx.y + 1) * e.channels + channel] = bias;
}

template <class C>
struct AddChunks {
  const C* partial;
  int64_t chunks, count;
  C* sums;
  __device__ void operator()(int64_t i) const {
    double total = 0;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      total += static_cast<double>(partial[chunk * count + i]);
    sums[i] = static_cast<C>(total);
  }
};

template <class T>
void parameter_sums(const GroupNormExtents& e, const Tensor& grad_y, const Tensor& x,
                    const Tensor& mean, const Tensor& rstd, Tensor& sums) {
  using C = compute_t<T>;
  if (e.channels == 0) return;
  const int64_t chunks = std::clamp<int64_t>(e.samples * e.positions / 64, 1, 256);
  Tensor partial = Tensor::empty({chunks, 2, e.channels}, sums.dtype(), sums.device());
  launch(parameter_sums_kernel<T>,
         dim3(blocks_for(e.channels, kSumColumns), static_cast<unsigned>(chunks)),
         dim3(kSumColumns, kSumRows), e, grad_y.data<T>(), x.data<T>(), mean.data<C>(),
         rstd.data<C>(), partial.mutable_data<C>());
  for_each(2 * e.channels,
           AddChunks<C>{partial.data<C>(), chunks, 2 * e.channels, sums.mutable_data<C>()});
}

int64_t unit_size(const GroupNormExtents& e) { return e.positions * (e.channels / e.groups); }

void forward(const Tensor& x, GroupNormExtents e, const Tensor& weight, const Tensor& bias,
             double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  if (e.samples * e.groups == 0) return;
  dispatch_floating(x.dtype(), "group_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    with_team(unit_size(e), [&](auto team) {
      using Team = decltype(team);
      launch(forward_kernel<Team, T>, Team::grid(e.samples * e.groups), dim3(kBlock), e,
             x.data<T>(), weight.data<C>(), bias.data<C>(), eps, y.mutable_data<T>(),
             mean.mutable_data<C>(), rstd.mutable_data<C>());
    });
  });
}

void backward(const Tensor& grad_y, const Tensor& x, GroupNormExtents e, const Tensor& weight,
              const Tensor& mean, const Tensor& rstd, const Dest& grad_x, Tensor& sums) {
  dispatch_floating(x.dtype(), "group_norm_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Tensor target = grad_x.out;
    if (sums.defined()) parameter_sums<T>(e, grad_y, x, mean, rstd, sums);
    if (!target.defined() || target.numel() == 0) return;
    with_team(unit_size(e), [&](auto team) {
      using Team = decltype(team);
      launch(backward_kernel<Team, T>, Team::grid(e.samples * e.groups), dim3(kBlock), e,
             grad_y.data<T>(), x.data<T>(), weight.data<C>(), mean.data<C>(), rstd.data<C>(),
             target.mutable_data<T>(), grad_x.accumulate);
    });
  });
}

}  // namespace

const GroupNormKernels kGroupNorm{.forward = forward,
                                  .backward = backward,
                                  .add_forward = add_norm,
                                  .add_backward = add_norm_backward};

}  // namespace lockstep::LOCKSTEP_GPU

// Batch normalisation: statistics and sums by a block for every 32 channels, the rest element by
// element.
#include "lockstep/tensor/ops/norm.h"

#include "lockstep/tensor/cuda/column_sums.h"
#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/tables.h"

#include <cmath>

namespace lockstep::LOCKSTEP_GPU {
namespace {

/// Mean and biased variance of each channel by Welford's update and Chan's merge, which a large
/// mean does not hurt.
template <class T, class C>
__global__ void moments_kernel(const T* x, int64_t rows, int64_t channels, C* mean, C* variance) {
  LOCKSTEP_SHARED(C, means, [kSumRows][kSumColumns]);
  LOCKSTEP_SHARED(C, squares, [kSumRows][kSumColumns]);
  const int64_t channel = int64_t{blockIdx.x} * kSumColumns + threadIdx.x;
  C m = C(0);
  C m2 = C(0);
  if (channel < channels) {
    int64_t seen = 0;
    for (int64_t row = threadIdx.y; row < rows; row += kSumRows) {
      const C value = static_cast<C>(x[row * channels + channel]);
      const C delta = value - m;
      m += delta / static_cast<C>(++seen);
      m2 += delta * (value - m);
    }
  }
  means[threadIdx.y][threadIdx.x] = m;
  squares[threadIdx.y][threadIdx.x] = m2;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  C count = static_cast<C>((rows + kSumRows - 1) / kSumRows);
  for (int i = 1; i < kSumRows && i < rows; ++i) {
    const C other = static_cast<C>((rows - i + kSumRows - 1) / kSumRows);
    const C delta = means[i][threadIdx.x] - m;
    m += delta * other / (count + other);
    m2 += squares[i][threadIdx.x] + delta * delta * count * other / (count + other);
    count += other;
  }
  mean[channel] = m;
  variance[channel] = m2 / static_cast<C>(rows);
}

template <class C>
struct Invstd {
  const C* variance;
  double eps;
  C* out;
  __device__ void operator()(int64_t i) const {
    out[i] = static_cast<C>(1.0 / sqrt(static_cast<double>(variance[i]) + eps));
  }
};

template <class C>
struct UpdateRunning {
  const C* batch;
  double momentum;
  double factor;
  C* running;
  __device__ void operator()(int64_t i) const {
    const double before = static_cast<double>(running[i]);
    running[i] =
        static_cast<C>(before + momentum * (factor * static_cast<double>(batch[i]) - before));
  }
};

template <class T>
struct Apply {
  using C = compute_t<T>;
  const T* x;
  const C* mean;
  const C* invstd;
  const C* weight;
  const C* bias;
  const T* residual;  // may be null
  bool relu;
  int64_t channels;
  T* y;
  __device__ void operator()(int64_t i) const {
    const int64_t c = i % channels;
    C v = (static_cast<C>(x[i]) - mean[c]) * (invstd[c] * weight[c]) + bias[c];
    if (residual != nullptr) v += static_cast<C>(residual[i]);
    y[i] = T(relu && v < C(0) ? C(0) : v);  // NaN compares false and stays
  }
};

/// The gradient that reaches the normalisation: through the relu whose result was y, if there was
/// one.
template <class T>
struct Passed {
  using C = compute_t<T>;
  const T* grad_y;
  const T* y;  // may be null
  __device__ C operator()(int64_t i, int64_t) const {
    return y == nullptr || static_cast<C>(y[i]) > C(0) ? static_cast<C>(grad_y[i]) : C(0);
  }
};

template <class T>
struct PassedTimesXhat {
  using C = compute_t<T>;
  Passed<T> passed;
  const T* x;
  const C* mean;
  const C* invstd;
  __device__ C operator()(int64_t i, int64_t c) const {
    return passed(i, c) * ((static_cast<C>(x[i]) - mean[c]) * invstd[c]);
  }
};

template <class T>
struct BackwardResidual {
  Passed<T> passed;
  T* grad;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const compute_t<T> g = passed(i, 0);
    grad[i] = T(accumulate ? static_cast<compute_t<T>>(grad[i]) + g : g);
  }
};

/// grad_x = weight invstd (g - sum(g) / n - xhat sum(g xhat) / n).
template <class T>
struct BackwardData {
  using C = compute_t<T>;
  Passed<T> passed;
  const T* x;
  const C* mean;
  const C* invstd;
  const C* weight;
  const C* sum_grad;       // null: mean and invstd did not depend on x
  const C* sum_grad_xhat;  // null with it
  C count;
  int64_t channels;
  T* grad_x;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const int64_t c = i % channels;
    C g = passed(i, c);
    if (sum_grad != nullptr) {
      const C xhat = (static_cast<C>(x[i]) - mean[c]) * invstd[c];
      g -= sum_grad[c] / count + xhat * (sum_grad_xhat[c] / count);
    }
    g *= weight[c] * invstd[c];
    grad_x[i] = T(accumulate ? static_cast<C>(grad_x[i]) + g : g);
  }
};

template <class T>
const T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

void moments(const Tensor& x, Tensor& mean, Tensor& variance) {
  dispatch_floating(x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const int64_t channels = mean.numel();
    if (channels == 0) return;
    launch(moments_kernel<T, C>, dim3(blocks_for(channels, kSumColumns)),
           dim3(kSumColumns, kSumRows), x.data<T>(), x.numel() / channels, channels,
           mean.mutable_data<C>(), variance.mutable_data<C>());
  });
}

/// Calls fn with the type of per-channel tensors: f32 or f64.
template <class Fn>
void with_channel_type(const Tensor& per_channel, Fn&& fn) {
  per_channel.dtype() == DType::kF64 ? fn(double{}) : fn(float{});
}

void invstd(const Tensor& variance, double eps, Tensor& out) {
  with_channel_type(variance, [&](auto zero) {
    using C = decltype(zero);
    for_each(out.numel(), Invstd<C>{variance.data<C>(), eps, out.mutable_data<C>()});
  });
}

void update_running(const Tensor& batch, double momentum, double factor, Tensor& running) {
  with_channel_type(batch, [&](auto zero) {
    using C = decltype(zero);
    for_each(batch.numel(),
             UpdateRunning<C>{batch.data<C>(), momentum, factor, running.mutable_data<C>()});
  });
}

void apply(const BatchNormInputs& in, const Tensor& weight, const Tensor& bias,
           const Tensor& residual, bool relu, Tensor& y) {
  dispatch_floating(in.x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    for_each(in.x.numel(), Apply<T>{in.x.data<T>(), in.mean.data<C>(), in.invstd.data<C>(),
                                    weight.data<C>(), bias.data<C>(), data_or_null<T>(residual),
                                    relu, weight.numel(), y.mutable_data<T>()});
  });
}

void backward_sums(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                   Tensor& sum_grad, Tensor& sum_grad_xhat, const Dest& grad_residual) {
  dispatch_floating(in.x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const int64_t channels = sum_grad.numel();
    if (channels == 0) return;
    const int64_t rows = in.x.numel() / channels;
    const Passed<T> passed{grad_y.data<T>(), data_or_null<T>(y)};
    const PassedTimesXhat<T> product{passed, in.x.data<T>(), in.mean.data<C>(),
                                     in.invstd.data<C>()};
    column_sums<C>(rows, channels, passed, sum_grad.mutable_data<C>(), false);
    column_sums<C>(rows, channels, product, sum_grad_xhat.mutable_data<C>(), false);
    Tensor residual = grad_residual.out;
    if (!residual.defined()) return;
    for_each(in.x.numel(),
             BackwardResidual<T>{passed, residual.mutable_data<T>(), grad_residual.accumulate});
  });
}

void backward_data(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                   const Tensor& weight, const Tensor& sum_grad, const Tensor& sum_grad_xhat,
                   double count, const Dest& grad_x) {
  dispatch_floating(in.x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Tensor target = grad_x.out;
    for_each(in.x.numel(), BackwardData<T>{{grad_y.data<T>(), data_or_null<T>(y)},
                                           in.x.data<T>(),
                                           in.mean.data<C>(),
                                           in.invstd.data<C>(),
                                           weight.data<C>(),
                                           data_or_null<C>(sum_grad),
                                           data_or_null<C>(sum_grad_xhat),
                                           static_cast<C>(count),
                                           weight.numel(),
                                           target.mutable_data<T>(),
                                           grad_x.accumulate});
  });
}

}  // namespace

const NormKernels kNorm{.moments = moments,
                        .invstd = invstd,
                        .update_running = update_running,
                        .apply = apply,
                        .backward_sums = backward_sums,
                        .backward_data = backward_data};

}  // namespace lockstep::LOCKSTEP_GPU

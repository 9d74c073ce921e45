// Batch normalisation: statistics and sums by reductions over the rows, the rest element by
// element.
#include "lockstep/tensor/ops/norm.h"

#include "lockstep/tensor/cuda/fold.h"
#include "lockstep/tensor/cuda/strided.h"
#include "lockstep/tensor/cuda/tables.h"

#include <cmath>

namespace lockstep::LOCKSTEP_GPU {
namespace {

/// Mean and biased variance of each channel by Welford's update and Chan's merge, which a large
/// mean does not hurt. A fold: an output is a channel, its terms are the rows.
template <class T>
struct ChannelMoments {
  using C = compute_t<T>;
  struct Value {
    C count, mean, m2;
    static __device__ Value none() { return {C(0), C(0), C(0)}; }
    __device__ void merge(const Value& other) {
      if (other.count == C(0)) return;
      if (count == C(0)) {  // the formula's 0 * delta^2 would be NaN where delta^2 overflows
        *this = other;
        return;
      }
      const C delta = other.mean - mean;
      const C all = count + other.count;
      mean += delta * (other.count / all);
      m2 += other.m2 + delta * delta * (count * (other.count / all));
      count = all;
    }
  };

  const T* x;
  int64_t rows, channels;
  C* mean;
  C* variance;

  __device__ Value lane(int64_t channel, int64_t first, int64_t step, int64_t end) const {
    Value v = Value::none();
#pragma unroll 4
    for (int64_t row = first; row < end; row += step) {
      const C value = static_cast<C>(x[row * channels + channel]);
      const C delta = value - v.mean;
      v.count += C(1);
      v.mean += delta / v.count;
      v.m2 += delta * (value - v.mean);
    }
    return v;
  }
  __device__ void finish(int64_t channel, const Value& v) const {
    mean[channel] = v.mean;
    variance[channel] = v.m2 / static_cast<C>(rows);
  }
};

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

/// The channel of element i.
__device__ inline int64_t channel_of(int64_t i, int64_t channels) {
  return i - divide(i, channels) * channels;
}

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
  template <int N>
  __device__ void run(int64_t i) const {
    const int64_t c = channel_of(i, channels);
    const Pack<T, N> in = load<N>(x + i);
    Pack<T, N> more{};
    if (residual != nullptr) more = load<N>(residual + i);
    const Pack<C, N> m = load<N>(mean + c), s = load<N>(invstd + c);
    const Pack<C, N> w = load<N>(weight + c), b = load<N>(bias + c);
    Pack<T, N> out;
    for (int k = 0; k < N; ++k) {
      C v = (static_cast<C>(in[k]) - m[k]) * (s[k] * w[k]) + b[k];
      if (residual != nullptr) v += static_cast<C>(more[k]);
      out[k] = T(relu && v < C(0) ? C(0) : v);  // NaN compares false and stays
    }
    store(y + i, out);
  }
};

/// The gradient that reaches the normalisation: through the relu whose result was y, if there was
/// one.
template <class T>
struct Passed {
  using C = compute_t<T>;
  const T* grad_y;
  const T* y;  // may be null
  __device__ C operator()(int64_t i) const {
    return y == nullptr || static_cast<C>(y[i]) > C(0) ? static_cast<C>(grad_y[i]) : C(0);
  }
};

/// The sums over the rows of g and of g xhat, and on the way what the residual gets, g itself. A
/// fold: an output is a channel.
template <class T, bool kResidual>
struct GradientSums {
  using C = compute_t<T>;
  struct Value {
    C grad, grad_xhat;
    static __device__ Value none() { return {C(0), C(0)}; }
    __device__ void merge(const Value& other) {
      grad += other.grad;
      grad_xhat += other.grad_xhat;
    }
  };

  Passed<T> passed;
  const T* x;
  const C* mean;
  const C* invstd;
  int64_t channels;
  C* sum_grad;
  C* sum_grad_xhat;
  T* grad_residual;
  bool accumulate;  // to it

  __device__ Value lane(int64_t channel, int64_t first, int64_t step, int64_t end) const {
    Value v = Value::none();
    const C center = mean[channel], scale = invstd[channel];
#pragma unroll 4
    for (int64_t row = first; row < end; row += step) {
      const int64_t i = row * channels + channel;
      const C g = passed(i);
      v.grad += g;
      v.grad_xhat += g * ((static_cast<C>(x[i]) - center) * scale);
      if constexpr (kResidual)
        grad_residual[i] = T(accumulate ? static_cast<C>(grad_residual[i]) + g : g);
    }
    return v;
  }
  __device__ void finish(int64_t channel, const Value& v) const {
    sum_grad[channel] = v.grad;
    sum_grad_xhat[channel] = v.grad_xhat;
  }
};

/// grad_x = weight invstd (g - sum(g) / n - xhat sum(g xhat) / n).
template <class T>
struct BackwardData {
  using C = compute_t<T>;
  const T* grad_y;
  const T* y;  // may be null
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
  template <int N>
  __device__ void run(int64_t i) const {
    const int64_t c = channel_of(i, channels);
    const Pack<T, N> g_in = load<N>(grad_y + i);
    Pack<C, N> g;
    for (int k = 0; k < N; ++k) g[k] = static_cast<C>(g_in[k]);
    if (y != nullptr) {
      const Pack<T, N> out = load<N>(y + i);
      for (int k = 0; k < N; ++k) g[k] = static_cast<C>(out[k]) > C(0) ? g[k] : C(0);
    }
    const Pack<C, N> s = load<N>(invstd + c);
    if (sum_grad != nullptr) {
      const Pack<T, N> in = load<N>(x + i);
      const Pack<C, N> m = load<N>(mean + c), a = load<N>(sum_grad + c);
      const Pack<C, N> b = load<N>(sum_grad_xhat + c);
      for (int k = 0; k < N; ++k) {
        const C xhat = (static_cast<C>(in[k]) - m[k]) * s[k];
        g[k] -= a[k] / count + xhat * (b[k] / count);
      }
    }
    const Pack<C, N> w = load<N>(weight + c);
    Pack<T, N> result{};
    if (accumulate) result = load<N>(grad_x + i);
    for (int k = 0; k < N; ++k) {
      const C value = g[k] * (w[k] * s[k]);
      result[k] = T(accumulate ? static_cast<C>(result[k]) + value : value);
    }
    store(grad_x + i, result);
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
    const int64_t rows = x.numel() / channels;
    reduce(channels, rows, Neighbours::kOutputs,
           ChannelMoments<T>{x.data<T>(), rows, channels, mean.mutable_data<C>(),
                             variance.mutable_data<C>()},
           x.device());
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
    const Apply<T> body{in.x.data<T>(),
                        in.mean.data<C>(),
                        in.invstd.data<C>(),
                        weight.data<C>(),
                        bias.data<C>(),
                        data_or_null<T>(residual),
                        relu,
                        weight.numel(),
                        y.mutable_data<T>()};
    constexpr int kPack = kWidth<T>;
    const bool packs =
        body.channels % kPack == 0 && aligned<kPack>(body.x, body.mean, body.invstd, body.weight,
                                                     body.bias, body.residual, body.y);
    for_each_pack<kPack>(in.x.numel(), packs, body);
  });
}

void backward_sums(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                   Tensor& sum_grad, Tensor& sum_grad_xhat, const Dest& grad_residual) {
  dispatch_floating(in.x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const int64_t channels = sum_grad.numel();
    if (channels == 0) return;
    Tensor residual = grad_residual.out;
    const auto sums = [&](auto with_residual) {
      constexpr bool kResidual = decltype(with_residual)::value;
      reduce(channels, in.x.numel() / channels, Neighbours::kOutputs,
             GradientSums<T, kResidual>{{grad_y.data<T>(), data_or_null<T>(y)},
                                        in.x.data<T>(),
                                        in.mean.data<C>(),
                                        in.invstd.data<C>(),
                                        channels,
                                        sum_grad.mutable_data<C>(),
                                        sum_grad_xhat.mutable_data<C>(),
                                        kResidual ? residual.mutable_data<T>() : nullptr,
                                        grad_residual.accumulate},
             in.x.device());
    };
    residual.defined() ? sums(std::true_type{}) : sums(std::false_type{});
  });
}

void backward_data(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                   const Tensor& weight, const Tensor& sum_grad, const Tensor& sum_grad_xhat,
                   double count, const Dest& grad_x) {
  dispatch_floating(in.x.dtype(), "batch_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Tensor target = grad_x.out;
    const BackwardData<T> body{grad_y.data<T>(),
                               data_or_null<T>(y),
                               in.x.data<T>(),
                               in.mean.data<C>(),
                               in.invstd.data<C>(),
                               weight.data<C>(),
                               data_or_null<C>(sum_grad),
                               data_or_null<C>(sum_grad_xhat),
                               static_cast<C>(count),
                               weight.numel(),
                               target.mutable_data<T>(),
                               grad_x.accumulate};
    constexpr int kPack = kWidth<T, C>;  // five of C for each of T: more would take registers
    const bool packs = body.channels % kPack == 0 &&
                       aligned<kPack>(body.grad_y, body.y, body.x, body.mean, body.invstd,
                                      body.weight, body.sum_grad, body.sum_grad_xhat, body.grad_x);
    for_each_pack<kPack>(in.x.numel(), packs, body);
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

#include "lockstep/tensor/ops/optimizer.h"

#include "lockstep/tensor/cuda/fold.h"
#include "lockstep/tensor/cuda/strided.h"
#include "lockstep/tensor/cuda/tables.h"
#include "lockstep/tensor/live.h"

#include <cmath>

namespace lockstep::LOCKSTEP_GPU {
namespace {

/// Parameters and where their new values go: back, and rounded into the shadow where there is one.
template <class T>
struct Target {
  using C = compute_t<T>;
  T* param;
  bf16* shadow;  // or null; with f32 alone
  template <int N>
  __device__ void put(int64_t i, const Pack<C, N>& values) const {
    Pack<T, N> rounded;
    for (int k = 0; k < N; ++k) rounded[k] = T(values[k]);
    store(param + i, rounded);
    if constexpr (std::is_same_v<T, float>) {
      if (shadow == nullptr) return;
      Pack<bf16, N> small;
      for (int k = 0; k < N; ++k) small[k] = bf16(values[k]);
      store(shadow + i, small);
    }
  }
};

template <class T>
Target<T> target_of(Tensor& param, Tensor& shadow) {
  return {param.mutable_data<T>(), shadow.defined() ? shadow.mutable_data<bf16>() : nullptr};
}

/// Of a step: what changes from one to the next.
template <class C>
struct SgdRates {
  C lr;
  C fresh;  // 1 - dampening
};

template <class T>
struct Sgd {
  using C = compute_t<T>;
  Target<T> target;
  const T* grad;
  T* velocity;  // null: no momentum
  Live<SgdRates<C>> rates;
  C momentum;
  C weight_decay;
  bool nesterov;
  template <int N>
  __device__ void run(int64_t i) const {
    const auto [lr, fresh] = rates.get();
    const Pack<T, N> p = load<N>(target.param + i);
    const Pack<T, N> g = load<N>(grad + i);
    Pack<T, N> v{};
    if (velocity != nullptr) v = load<N>(velocity + i);
    Pack<C, N> next;
    for (int k = 0; k < N; ++k) {
      const C x = static_cast<C>(p[k]);
      C d = static_cast<C>(g[k]) + weight_decay * x;
      if (velocity != nullptr) {
        const C moved = momentum * static_cast<C>(v[k]) + fresh * d;
        v[k] = T(moved);
        d = nesterov ? d + momentum * moved : moved;
      }
      next[k] = x - lr * d;
    }
    if (velocity != nullptr) store(velocity + i, v);
    target.template put<N>(i, next);
  }
};

void sgd_step(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step,
              Tensor& shadow) {
  dispatch_floating(param.dtype(), "sgd_step", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    constexpr int kPack = kWidth<T>;
    const Sgd<T> body{target_of<T>(param, shadow),
                      grad.data<T>(),
                      velocity.defined() ? velocity.mutable_data<T>() : nullptr,
                      live(SgdRates<C>{C(step.lr), C(1 - step.dampening)}),
                      C(step.momentum),
                      C(step.weight_decay),
                      step.nesterov};
    for_each_pack<kPack>(
        param.numel(),
        aligned<kPack>(body.target.param, body.target.shadow, body.grad, body.velocity), body);
  });
}

/// What corrects the bias of m and of sqrt(v).
template <class C>
struct BiasScales {
  C of_m, of_v;
};
template <class C>
BiasScales<C> bias_scales(const AdamStep& s) {
  const auto step = static_cast<double>(s.step);
  return {C(1 / (1 - std::pow(s.beta1, step))), C(1 / std::sqrt(1 - std::pow(s.beta2, step)))};
}

/// Adam's moments and direction for one element; the constants are rounded once.
template <class T>
struct Moments {
  using C = compute_t<T>;
  T* m;
  T* v;
  C fresh1, beta2, fresh2, eps;

  Moments(T* m_, T* v_, const AdamStep& s)
      : m(m_),
        v(v_),
        fresh1(C(1 - s.beta1)),
        beta2(C(s.beta2)),
        fresh2(C(1 - s.beta2)),
        eps(C(s.eps)) {}

  __device__ void update(C g, T& m_of, T& v_of) const {
    m_of = T(static_cast<C>(m_of) + fresh1 * (g - static_cast<C>(m_of)));
    v_of = T(beta2 * static_cast<C>(v_of) + fresh2 * g * g);
  }
  __device__ C direction(const BiasScales<C>& scales, T m_of, T v_of) const {
    return scales.of_m * static_cast<C>(m_of) /
           (std::sqrt(static_cast<C>(v_of)) * scales.of_v + eps);
  }
};

template <class C>
struct AdamRates {
  BiasScales<C> scales;
  C lr;
  C keep;  // what decoupled decay leaves
};

template <class T>
struct Adam {
  using C = compute_t<T>;
  Target<T> target;
  const T* grad;
  Moments<T> moments;
  Live<AdamRates<C>> rates;
  C l2;  // coupled decay
  template <int N>
  __device__ void run(int64_t i) const {
    const AdamRates<C> r = rates.get();
    const Pack<T, N> p = load<N>(target.param + i);
    const Pack<T, N> g = load<N>(grad + i);
    Pack<T, N> m = load<N>(moments.m + i);
    Pack<T, N> v = load<N>(moments.v + i);
    Pack<C, N> next;
    for (int k = 0; k < N; ++k) {
      const C x = static_cast<C>(p[k]);
      moments.update(static_cast<C>(g[k]) + l2 * x, m[k], v[k]);
      next[k] = r.keep * x - r.lr * moments.direction(r.scales, m[k], v[k]);
    }
    store(moments.m + i, m);
    store(moments.v + i, v);
    target.template put<N>(i, next);
  }
};

void adam_step(Tensor& param, const Tensor& grad, Tensor& m, Tensor& v, const AdamStep& step,
               Tensor& shadow) {
  dispatch_floating(param.dtype(), "adam_step", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    constexpr int kPack = kWidth<T>;
    const bool decoupled = step.decoupled_weight_decay;
    const Adam<T> body{target_of<T>(param, shadow),
                       grad.data<T>(),
                       {m.mutable_data<T>(), v.mutable_data<T>(), step},
                       live(AdamRates<C>{bias_scales<C>(step), C(step.lr),
                                         C(decoupled ? 1 - step.lr * step.weight_decay : 1)}),
                       C(decoupled ? 0 : step.weight_decay)};
    for_each_pack<kPack>(param.numel(),
                         aligned<kPack>(body.target.param, body.target.shadow, body.grad,
                                        body.moments.m, body.moments.v),
                         body);
  });
}

/// The sums of the squares of the parameter and of LAMB's direction.
struct TwoSums {
  double param, direction;
  static __device__ TwoSums none() { return {0, 0}; }
  __device__ void merge(const TwoSums& other) {
    param += other.param;
    direction += other.direction;
  }
};

template <class T>
struct LambMoments {
  using Value = TwoSums;
  using C = compute_t<T>;
  const T* param;
  const T* grad;
  Moments<T> moments;
  Live<BiasScales<C>> bias;
  C decay;
  double* squares;
  template <int N>
  __device__ void run(int64_t i, TwoSums& sums) const {
    const BiasScales<C> scales = bias.get();
    const Pack<T, N> p = load<N>(param + i);
    const Pack<T, N> g = load<N>(grad + i);
    Pack<T, N> m = load<N>(moments.m + i);
    Pack<T, N> v = load<N>(moments.v + i);
    for (int k = 0; k < N; ++k) {
      const C x = static_cast<C>(p[k]);
      moments.update(static_cast<C>(g[k]), m[k], v[k]);
      const C r = moments.direction(scales, m[k], v[k]) + decay * x;
      sums.param += static_cast<double>(x) * static_cast<double>(x);
      sums.direction += static_cast<double>(r) * static_cast<double>(r);
    }
    store(moments.m + i, m);
    store(moments.v + i, v);
  }
  __device__ void finish(const TwoSums& sums) const {
    squares[0] = sums.param;
    squares[1] = sums.direction;
  }
};

void lamb_moments(const Tensor& param, const Tensor& grad, Tensor& m, Tensor& v,
                  const AdamStep& step, Tensor& squares) {
  dispatch_floating(param.dtype(), "lamb_step", [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = kWidth<T>;
    const LambMoments<T> body{param.data<T>(),
                              grad.data<T>(),
                              {m.mutable_data<T>(), v.mutable_data<T>(), step},
                              live(bias_scales<compute_t<T>>(step)),
                              compute_t<T>(step.weight_decay),
                              squares.mutable_data<double>()};
    const bool packs = aligned<kPack>(body.param, body.grad, body.moments.m, body.moments.v);
    reduce_flat<kPack>(param.numel(), packs, body, param.device());
  });
}

template <class C>
struct LambRates {
  BiasScales<C> scales;
  double lr;
};

template <class T>
struct LambApply {
  using C = compute_t<T>;
  Target<T> target;
  Moments<T> moments;
  Live<LambRates<C>> rates;
  C decay;
  const double* squares;
  C rate;
  /// The host does not wait for the norms, so each thread makes its rate of them.
  __device__ void start() {
    const double param = squares[0], direction = squares[1];
    const bool both = param > 0 && direction > 0;
    rate = static_cast<C>(rates.get().lr * (both ? std::sqrt(param) / std::sqrt(direction) : 1.0));
  }
  template <int N>
  __device__ void run(int64_t i) const {
    const Pack<T, N> p = load<N>(target.param + i);
    const Pack<T, N> m = load<N>(moments.m + i);
    const Pack<T, N> v = load<N>(moments.v + i);
    const BiasScales<C> scales = rates.get().scales;
    Pack<C, N> next;
    for (int k = 0; k < N; ++k) {
      const C x = static_cast<C>(p[k]);
      next[k] = x - rate * (moments.direction(scales, m[k], v[k]) + decay * x);
    }
    target.template put<N>(i, next);
  }
};

void lamb_apply(Tensor& param, const Tensor& m, const Tensor& v, const AdamStep& step,
                const Tensor& squares, Tensor& shadow) {
  dispatch_floating(param.dtype(), "lamb_step", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    constexpr int kPack = kWidth<T>;
    // Moments can write, but run() does not.
    const Moments<T> moments(const_cast<T*>(m.data<T>()), const_cast<T*>(v.data<T>()), step);
    const LambApply<T> body{target_of<T>(param, shadow),
                            moments,
                            live(LambRates<C>{bias_scales<C>(step), step.lr}),
                            C(step.weight_decay),
                            squares.data<double>(),
                            C(0)};
    for_each_pack<kPack>(
        param.numel(), aligned<kPack>(body.target.param, body.target.shadow, moments.m, moments.v),
        body);
  });
}

template <class C>
struct Lerp {
  C factor;
  bool near_value;  // from that end: weights of 0 and of 1 are exact
  __device__ C operator()(C from, C to) const {
    return (near_value ? to : from) + factor * (to - from);
  }
};

template <class C>
struct LiveLerp {
  Live<Lerp<C>> lerp;
  __device__ C operator()(C from, C to) const { return lerp.get()(from, to); }
};

void lerp(Tensor& average, const Tensor& value, double weight) {
  dispatch_floating(average.dtype(), "lerp", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const bool near_value = weight >= 0.5;
    T* values = average.mutable_data<T>();
    const Lerp<C> towards{static_cast<C>(near_value ? weight - 1 : weight), near_value};
    map(average.numel(), LiveLerp<C>{live(towards)}, values, false, values, value.data<T>());
  });
}

__global__ void clip_kernel(int64_t count, const double* squares, double max_norm, double* result) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += squares[i];
  result[0] = std::sqrt(total);
  result[1] = clip_factor(result[0], max_norm);
}

void clip_factor_of(const Tensor& squares, double max_norm, Tensor& result) {
  launch(clip_kernel, dim3(1), dim3(1), squares.numel(), squares.data<double>(), max_norm,
         result.mutable_data<double>());
}

template <class T>
struct ScaleBy {
  using C = compute_t<T>;
  const double* factor;
  T* x;
  template <int N>
  __device__ void run(int64_t i) const {
    const double by = *factor;
    if (by == 1) return;
    Pack<T, N> values = load<N>(x + i);
    for (int k = 0; k < N; ++k) values[k] = T(static_cast<C>(values[k]) * static_cast<C>(by));
    store(x + i, values);
  }
};

void scale_by(const Tensor& factor, Tensor& x) {
  dispatch_floating(x.dtype(), "scale_by", [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = kWidth<T>;
    const ScaleBy<T> body{factor.data<double>(), x.mutable_data<T>()};
    for_each_pack<kPack>(x.numel(), aligned<kPack>(body.x), body);
  });
}

}  // namespace

const OptimizerKernels kOptimizer{.sgd_step = sgd_step,
                                  .adam_step = adam_step,
                                  .lamb_moments = lamb_moments,
                                  .lamb_apply = lamb_apply,
                                  .lerp = lerp,
                                  .clip_factor = clip_factor_of,
                                  .scale_by = scale_by};

}  // namespace lockstep::LOCKSTEP_GPU

#include "lockstep/tensor/ops/optimizer.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;

enum class Form { kPlain, kMomentum, kNesterov };

/// Where the new values go besides the parameter. A template argument, as every form of an update,
/// so that the loops have no branch and each is one vectorised pass.
struct NoShadow {
  template <class C>
  void put(int64_t, C) const {}
};
struct Bf16Shadow {
  bf16* __restrict values;
  void put(int64_t i, float value) const { values[i] = bf16(value); }
};

/// Calls fn(T{}, shadow) with the element type of `param` and one of the two above.
template <class Fn>
void dispatch_update(const char* op, const Tensor& param, Tensor& shadow, Fn&& fn) {
  if (shadow.defined()) return fn(float{}, Bf16Shadow{shadow.mutable_data<bf16>()});
  dispatch_floating(param.dtype(), op, [&](auto zero) { fn(zero, NoShadow{}); });
}

template <Form form, class T, class Shadow>
void update(T* __restrict p, const T* __restrict g, T* __restrict v, int64_t n, const SgdStep& step,
            Shadow shadow) {
  using C = compute_t<T>;
  const C lr = static_cast<C>(step.lr);
  const C mu = static_cast<C>(step.momentum);
  const C fresh = static_cast<C>(1 - step.dampening);
  const C decay = static_cast<C>(step.weight_decay);
  parallel_for(n, kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const C x = static_cast<C>(p[i]);
      C d = static_cast<C>(g[i]) + decay * x;
      if constexpr (form != Form::kPlain) {
        const C velocity = mu * static_cast<C>(v[i]) + fresh * d;
        v[i] = T(velocity);
        d = form == Form::kNesterov ? d + mu * velocity : velocity;
      }
      const C next = x - lr * d;
      p[i] = T(next);
      shadow.put(i, next);
    }
  });
}

void sgd_step(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step,
              Tensor& shadow) {
  dispatch_update("sgd_step", param, shadow, [&](auto zero, auto to) {
    using T = decltype(zero);
    T* p = param.mutable_data<T>();
    const T* g = grad.data<T>();
    const int64_t n = param.numel();
    if (step.momentum == 0) {
      update<Form::kPlain, T>(p, g, nullptr, n, step, to);
    } else if (step.nesterov) {
      update<Form::kNesterov, T>(p, g, velocity.mutable_data<T>(), n, step, to);
    } else {
      update<Form::kMomentum, T>(p, g, velocity.mutable_data<T>(), n, step, to);
    }
  });
}

/// Adam's moments and direction for one element; the constants are rounded once, as PyTorch's are.
template <class T>
struct Moments {
  using C = compute_t<T>;

  explicit Moments(const AdamStep& s)
      : fresh1(static_cast<C>(1 - s.beta1)),
        beta2(static_cast<C>(s.beta2)),
        fresh2(static_cast<C>(1 - s.beta2)),
        eps(static_cast<C>(s.eps)),
        scale1(static_cast<C>(1 / (1 - std::pow(s.beta1, static_cast<double>(s.step))))),
        scale2(static_cast<C>(1 / std::sqrt(1 - std::pow(s.beta2, static_cast<double>(s.step))))) {}

  void update(C g, T& m, T& v) const {
    m = T(static_cast<C>(m) + fresh1 * (g - static_cast<C>(m)));
    v = T(beta2 * static_cast<C>(v) + fresh2 * g * g);
  }
  /// Both corrected for their bias.
  C direction(T m, T v) const {
    return scale1 * static_cast<C>(m) / (std::sqrt(static_cast<C>(v)) * scale2 + eps);
  }

  C fresh1, beta2, fresh2, eps, scale1, scale2;
};

void adam_step(Tensor& param, const Tensor& grad, Tensor& m_tensor, Tensor& v_tensor,
               const AdamStep& step, Tensor& shadow) {
  dispatch_update("adam_step", param, shadow, [&](auto zero, auto to) {
    using T = decltype(zero);
    using C = compute_t<T>;
    T* __restrict p = param.mutable_data<T>();
    T* __restrict m = m_tensor.mutable_data<T>();
    T* __restrict v = v_tensor.mutable_data<T>();
    const T* __restrict g = grad.data<T>();
    const Moments<T> moments(step);
    const bool decoupled = step.decoupled_weight_decay;
    const C lr = static_cast<C>(step.lr);
    const C l2 = static_cast<C>(decoupled ? 0 : step.weight_decay);
    const C keep = static_cast<C>(decoupled ? 1 - step.lr * step.weight_decay : 1);
    parallel_for(param.numel(), kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const C x = static_cast<C>(p[i]);
        moments.update(static_cast<C>(g[i]) + l2 * x, m[i], v[i]);
        const C next = keep * x - lr * moments.direction(m[i], v[i]);
        p[i] = T(next);
        to.put(i, next);
      }
    });
  });
}

/// Sums of squares of `param` and of LAMB's r over a block, whose moments it updates on the way.
template <class T>
void lamb_block(const T* __restrict p, const T* __restrict g, T* __restrict m, T* __restrict v,
                int64_t count, const Moments<T>& moments, compute_t<T> decay, double* sums) {
  using C = compute_t<T>;
  constexpr int64_t kLanes = 16;
  double params[kLanes] = {}, directions[kLanes] = {};
  const auto add = [&](int64_t i, int64_t lane) {
    const C x = static_cast<C>(p[i]);
    moments.update(static_cast<C>(g[i]), m[i], v[i]);
    const C r = moments.direction(m[i], v[i]) + decay * x;
    params[lane] += static_cast<double>(x) * static_cast<double>(x);
    directions[lane] += static_cast<double>(r) * static_cast<double>(r);
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma omp simd
    for (int64_t j = 0; j < kLanes; ++j) add(i + j, j);
  }
  for (int64_t j = 0; i < count; ++i, ++j) add(i, j);
  sums[0] = std::accumulate(params, params + kLanes, 0.0);
  sums[1] = std::accumulate(directions, directions + kLanes, 0.0);
}

void lamb_moments(const Tensor& param, const Tensor& grad, Tensor& m_tensor, Tensor& v_tensor,
                  const AdamStep& step, Tensor& squares) {
  constexpr int64_t kBlock = kGrain;  // not by the number of threads, as the bits depend on it
  const int64_t blocks = (param.numel() + kBlock - 1) / kBlock;
  Tensor partial = Tensor::empty({blocks, 2}, DType::kF64);
  double* sums = partial.mutable_data<double>();
  dispatch_floating(param.dtype(), "lamb_step", [&](auto zero) {
    using T = decltype(zero);
    const T* p = param.data<T>();
    const T* g = grad.data<T>();
    T* m = m_tensor.mutable_data<T>();
    T* v = v_tensor.mutable_data<T>();
    const Moments<T> moments(step);
    const auto decay = static_cast<compute_t<T>>(step.weight_decay);
    parallel_for(blocks, 1, [=, n = param.numel()](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t at = b * kBlock;
        lamb_block(p + at, g + at, m + at, v + at, std::min(kBlock, n - at), moments, decay,
                   sums + 2 * b);
      }
    });
  });
  double* total = squares.mutable_data<double>();
  total[0] = total[1] = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    total[0] += sums[2 * b];
    total[1] += sums[2 * b + 1];
  }
}

void lamb_apply(Tensor& param, const Tensor& m_tensor, const Tensor& v_tensor, const AdamStep& step,
                const Tensor& squares, Tensor& shadow) {
  const double* total = squares.data<double>();
  const double ratio = total[0] > 0 && total[1] > 0 ? std::sqrt(total[0]) / std::sqrt(total[1]) : 1;
  dispatch_update("lamb_step", param, shadow, [&](auto zero, auto to) {
    using T = decltype(zero);
    using C = compute_t<T>;
    T* __restrict p = param.mutable_data<T>();
    const T* __restrict m = m_tensor.data<T>();
    const T* __restrict v = v_tensor.data<T>();
    const Moments<T> moments(step);
    const C rate = static_cast<C>(step.lr * ratio);
    const C decay = static_cast<C>(step.weight_decay);
    parallel_for(param.numel(), kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const C x = static_cast<C>(p[i]);
        const C next = x - rate * (moments.direction(m[i], v[i]) + decay * x);
        p[i] = T(next);
        to.put(i, next);
      }
    });
  });
}

void lerp(Tensor& average, const Tensor& value, double weight) {
  dispatch_floating(average.dtype(), "lerp", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    T* __restrict a = average.mutable_data<T>();
    const T* __restrict x = value.data<T>();
    // From the nearer end, so that weights of 0 and of 1 are exact.
    const bool near_value = weight >= 0.5;
    const C factor = static_cast<C>(near_value ? weight - 1 : weight);
    parallel_for(average.numel(), kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const C from = static_cast<C>(a[i]), to = static_cast<C>(x[i]);
        a[i] = T((near_value ? to : from) + factor * (to - from));
      }
    });
  });
}

void clip_factor_of(const Tensor& squares, double max_norm, Tensor& result) {
  double total = 0;
  for (int64_t i = 0; i < squares.numel(); ++i) total += squares.data<double>()[i];
  double* const out = result.mutable_data<double>();
  out[0] = std::sqrt(total);
  out[1] = clip_factor(out[0], max_norm);
}

void scale_by(const Tensor& factor, Tensor& x) {
  const double by = factor.item();
  if (by != 1) cpu_backend().copy.scale(by, x);
}

}  // namespace

const OptimizerKernels kCpuOptimizer{.sgd_step = sgd_step,
                                     .adam_step = adam_step,
                                     .lamb_moments = lamb_moments,
                                     .lamb_apply = lamb_apply,
                                     .lerp = lerp,
                                     .clip_factor = clip_factor_of,
                                     .scale_by = scale_by};

}  // namespace lockstep

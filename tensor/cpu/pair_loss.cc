#include "lockstep/tensor/ops/pair_loss.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/store.h"
#include "lockstep/tensor/cpu/vector_math.h"

namespace lockstep {
namespace {

using cpu::parallel_for;
using cpu::row_sum;

// Elements whose terms are added up in the compute type; such sums are then added in f64, in order.
constexpr int64_t kBlock = 1024;

/// factor * the sum of term(i) for i in [0, count).
template <class C, class Term>
void sum_loss(int64_t count, double factor, Tensor& loss, Term term) {
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  Tensor partials = Tensor::empty({blocks}, DType::kF64);
  double* partial = partials.mutable_data<double>();
  parallel_for(blocks, 4, [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kBlock;
      partial[b] = static_cast<double>(
          row_sum<C>(std::min(kBlock, count - first), [=](int64_t i) { return term(first + i); }));
    }
  });
  double total = 0;
  for (int64_t b = 0; b < blocks; ++b) total += partial[b];
  *loss.mutable_data<C>() = static_cast<C>(total * factor);
}

/// grad (+)= slope(i) * scale for each element.
template <class T, class Slope>
void map_gradient(int64_t count, compute_t<T> scale, const Dest& grad, Slope slope) {
  using C = compute_t<T>;
  Tensor target = grad.out;
  T* out = target.mutable_data<T>();
  parallel_for(count, cpu::kGrain / 4,
               [=, accumulate = grad.accumulate](int64_t begin, int64_t end) {
#pragma omp simd
                 for (int64_t i = begin; i < end; ++i) {
                   const C value = scale * slope(i);
                   cpu::store(out[i], accumulate ? static_cast<C>(out[i]) + value : value);
                 }
               });
}

void mse(const Tensor& x, const Tensor& target, double factor, Tensor& loss) {
  dispatch_floating(x.dtype(), "mse", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    sum_loss<C>(x.numel(), factor, loss, [a = x.data<T>(), b = target.data<T>()](int64_t i) {
      const C d = static_cast<C>(a[i]) - static_cast<C>(b[i]);
      return d * d;
    });
  });
}

void mse_backward(const Tensor& grad_loss, const Tensor& x, const Tensor& target, double factor,
                  const Dest& grad_x) {
  dispatch_floating(x.dtype(), "mse_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const C scale = *grad_loss.data<C>() * static_cast<C>(2 * factor);
    map_gradient<T>(x.numel(), scale, grad_x, [a = x.data<T>(), b = target.data<T>()](int64_t i) {
      return static_cast<C>(a[i]) - static_cast<C>(b[i]);
    });
  });
}

/// fn(logit, target, weight of the positive part) for element i, the weight 1 without pos_weight.
template <class T, class Fn>
auto with_weight(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight, Fn fn) {
  using C = compute_t<T>;
  const T* w = pos_weight.defined() ? pos_weight.data<T>() : nullptr;
  return [x = logits.data<T>(), y = targets.data<T>(), w,
          channels = w != nullptr ? logits.dim(-1) : 1, fn](int64_t i) {
    return fn(static_cast<C>(x[i]), static_cast<C>(y[i]),
              w != nullptr ? static_cast<C>(w[i % channels]) : C(1));
  };
}

void bce_with_logits(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight,
                     double factor, Tensor& loss) {
  dispatch_floating(logits.dtype(), "bce_with_logits", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    // -log s(x) = softplus(-x) and -log(1 - s(x)) = softplus(-x) + x.
    sum_loss<C>(logits.numel(), factor, loss,
                with_weight<T>(logits, targets, pos_weight, [](C x, C y, C w) {
                  return (C(1) - y) * x + (C(1) + (w - C(1)) * y) * cpu::softplus_of(-x);
                }));
  });
}

void bce_with_logits_backward(const Tensor& grad_loss, const Tensor& logits, const Tensor& targets,
                              const Tensor& pos_weight, double factor, const Dest& grad_logits) {
  dispatch_floating(logits.dtype(), "bce_with_logits_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const C scale = *grad_loss.data<C>() * static_cast<C>(factor);
    map_gradient<T>(logits.numel(), scale, grad_logits,
                    with_weight<T>(logits, targets, pos_weight, [](C x, C y, C w) {
                      return (C(1) - y) - (C(1) + (w - C(1)) * y) * cpu::sigmoid_of(-x);
                    }));
  });
}

/// The products that a cosine is made of. PyTorch adds the same amount to the squared norms.
template <class C>
struct Cosine {
  C aa, bb, value;

  template <class T>
  Cosine(const T* a, const T* b, int64_t count) {
    const auto dot = [=](const T* u, const T* v) {
      return row_sum<C>(count,
                        [=](int64_t i) { return static_cast<C>(u[i]) * static_cast<C>(v[i]); });
    };
    constexpr C kEps = C(1e-12);
    aa = dot(a, a) + kEps;
    bb = dot(b, b) + kEps;
    value = dot(a, b) / std::sqrt(aa * bb);
  }
};

void cosine_embedding(const Tensor& a, const Tensor& b, const Tensor& labels, double margin,
                      double factor, Tensor& loss) {
  const int64_t* label = labels.data<int64_t>();
  const int64_t rows = a.dim(0);
  for (int64_t n = 0; n < rows; ++n) {
    check(label[n] == 1 || label[n] == -1, "cosine_embedding: the label of row ", n, " is ",
          label[n], ", wanted 1 or -1");
  }
  Tensor row_losses = Tensor::empty({rows}, DType::kF64);
  double* losses = row_losses.mutable_data<double>();
  dispatch_floating(a.dtype(), "cosine_embedding", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const int64_t width = a.dim(1);
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    parallel_for(rows, cpu::row_grain(width), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const double cosine =
            static_cast<double>(Cosine<C>(x + n * width, y + n * width, width).value);
        losses[n] = label[n] == 1 ? 1 - cosine : std::max(cosine - margin, 0.0);
      }
    });
    double total = 0;
    for (int64_t n = 0; n < rows; ++n) total += losses[n];
    *loss.mutable_data<C>() = static_cast<C>(total * factor);
  });
}

void cosine_embedding_backward(const Tensor& grad_loss, const Tensor& a, const Tensor& b,
                               const Tensor& labels, double margin, double factor,
                               const Dest& grad_a) {
  dispatch_floating(a.dtype(), "cosine_embedding_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const int64_t* label = labels.data<int64_t>();
    const int64_t width = a.dim(1);
    const T* x = a.data<T>();
    const T* y = b.data<T>();
    const C scale = *grad_loss.data<C>() * static_cast<C>(factor);
    Tensor target = grad_a.out;
    T* out = target.mutable_data<T>();
    parallel_for(a.dim(0), cpu::row_grain(width),
                 [=, accumulate = grad_a.accumulate](int64_t begin, int64_t end) {
                   for (int64_t n = begin; n < end; ++n) {
                     const T* u = x + n * width;
                     const T* v = y + n * width;
                     const Cosine<C> cosine(u, v, width);
                     const bool far = static_cast<double>(cosine.value) > margin;
                     const C slope = label[n] == 1 ? -scale : far ? scale : C(0);
                     // d cos / d a = b / (|a| |b|) - cos * a / |a|^2
                     const C of_b = slope / std::sqrt(cosine.aa * cosine.bb);
                     const C of_a = slope * cosine.value / cosine.aa;
                     T* to = out + n * width;
#pragma omp simd
                     for (int64_t i = 0; i < width; ++i) {
                       const C value = of_b * static_cast<C>(v[i]) - of_a * static_cast<C>(u[i]);
                       cpu::store(to[i], accumulate ? static_cast<C>(to[i]) + value : value);
                     }
                   }
                 });
  });
}

}  // namespace

const PairLossKernels kCpuPairLoss{.mse = mse,
                                   .mse_backward = mse_backward,
                                   .bce_with_logits = bce_with_logits,
                                   .bce_with_logits_backward = bce_with_logits_backward,
                                   .cosine_embedding = cosine_embedding,
                                   .cosine_embedding_backward = cosine_embedding_backward};

}  // namespace lockstep

#include "lockstep/tensor/ops/loss.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/rows.h"
#include "lockstep/tensor/cpu/store.h"

namespace lockstep {
namespace {

using cpu::parallel_for;
using cpu::row_grain;
using cpu::row_sum;

/// Checks the targets and returns how many are not ignored.
int64_t count_targets(const char* op, const int64_t* targets, int64_t rows, int64_t classes,
                      int64_t ignore_index) {
  int64_t counted = 0;
  for (int64_t n = 0; n < rows; ++n) {
    if (targets[n] == ignore_index) continue;
    check(targets[n] >= 0 && targets[n] < classes, op, ": the target of row ", n, " is ",
          targets[n], ", wanted one in [0, ", classes, ") or ignore_index ", ignore_index);
    ++counted;
  }
  return counted;
}

double factor_of(Reduction reduction, int64_t counted) {
  if (reduction == Reduction::kSum) return 1;
  return counted > 0 ? 1 / static_cast<double>(counted) : 0;
}

void cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                   Tensor& loss, Tensor& lse, Tensor& scale) {
  const int64_t rows = logits.dim(0);
  const int64_t classes = logits.dim(1);
  const int64_t* target = targets.data<int64_t>();
  const int64_t ignore_index = options.ignore_index;
  const int64_t counted = count_targets("cross_entropy", target, rows, classes, ignore_index);
  const double factor = factor_of(options.reduction, counted);
  // One loss a row, added up in order afterwards: the sum does not depend on the number of threads.
  Tensor row_losses = Tensor::empty({rows}, DType::kF64);
  double* losses = row_losses.mutable_data<double>();
  dispatch_floating(logits.dtype(), "cross_entropy", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = logits.data<T>();
    C* logsumexp = lse.mutable_data<C>();
    const C smoothing = static_cast<C>(options.label_smoothing);
    parallel_for(rows, row_grain(classes), [=](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const T* row = x + n * classes;
        losses[n] = 0;
        logsumexp[n] = 0;
        if (target[n] == ignore_index) continue;
        logsumexp[n] = cpu::row_logsumexp(row, classes);
        C value = logsumexp[n] - static_cast<C>(row[target[n]]);
        if (smoothing > 0) {
          const C mean = row_sum<C>(classes, [=](int64_t i) { return static_cast<C>(row[i]); }) /
                         static_cast<C>(classes);
          value += smoothing * (static_cast<C>(row[target[n]]) - mean);
        }
        losses[n] = static_cast<double>(value);
      }
    });
    double total = 0;
    for (int64_t n = 0; n < rows; ++n) total += losses[n];
    *loss.mutable_data<C>() = static_cast<C>(total * factor);
    *scale.mutable_data<C>() = static_cast<C>(factor);
  });
}

void cross_entropy_backward(const Tensor& grad_loss, const Tensor& logits, const Tensor& targets,
                            const CrossEntropyOptions& options, const Tensor& lse,
                            const Tensor& scale, const Dest& grad_logits) {
  dispatch_floating(logits.dtype(), "cross_entropy_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const int64_t classes = logits.dim(1);
    const T* x = logits.data<T>();
    const int64_t* target = targets.data<int64_t>();
    const C* logsumexp = lse.data<C>();
    const C factor = *grad_loss.data<C>() * *scale.data<C>();
    const C smoothing = static_cast<C>(options.label_smoothing);
    const C everywhere = smoothing / static_cast<C>(std::max<int64_t>(classes, 1));
    Tensor out = grad_logits.out;
    T* dx = out.mutable_data<T>();
    parallel_for(logits.dim(0), row_grain(classes),
                 [=, ignore_index = options.ignore_index, accumulate = grad_logits.accumulate](
                     int64_t begin, int64_t end) {
                   for (int64_t n = begin; n < end; ++n) {
                     const T* row = x + n * classes;
                     T* to = dx + n * classes;
                     const int64_t t = target[n];
                     if (t == ignore_index) {
                       if (!accumulate) std::fill(to, to + classes, T(C(0)));
                       continue;
                     }
                     const C shift = logsumexp[n];
                     const auto gradient = [=](int64_t i) {
                       return factor * (cpu::exp_of(static_cast<C>(row[i]) - shift) - everywhere);
                     };
                     const C at_target = (accumulate ? static_cast<C>(to[t]) : C(0)) + gradient(t) -
                                         factor * (C(1) - smoothing);
                     if (accumulate) {
#pragma omp simd
                       for (int64_t i = 0; i < classes; ++i)
                         cpu::store(to[i], static_cast<C>(to[i]) + gradient(i));
                     } else {
#pragma omp simd
                       for (int64_t i = 0; i < classes; ++i) cpu::store(to[i], gradient(i));
                     }
                     to[t] = T(at_target);
                   }
                 });
  });
}

void nll(const Tensor& log_probs, const Tensor& targets, const NllOptions& options, Tensor& loss,
         Tensor& scale) {
  const int64_t rows = log_probs.dim(0);
  const int64_t classes = log_probs.dim(1);
  const int64_t* target = targets.data<int64_t>();
  const int64_t counted = count_targets("nll", target, rows, classes, options.ignore_index);
  const double factor = factor_of(options.reduction, counted);
  dispatch_floating(log_probs.dtype(), "nll", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = log_probs.data<T>();
    double total = 0;
    for (int64_t n = 0; n < rows; ++n) {
      if (target[n] != options.ignore_index)
        total -= static_cast<double>(static_cast<C>(x[n * classes + target[n]]));
    }
    *loss.mutable_data<C>() = static_cast<C>(total * factor);
    *scale.mutable_data<C>() = static_cast<C>(factor);
  });
}

void nll_backward(const Tensor& grad_loss, const Tensor& targets, int64_t ignore_index,
                  const Tensor& scale, const Dest& grad_log_probs) {
  dispatch_floating(grad_log_probs.out.dtype(), "nll_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Tensor out = grad_log_probs.out;
    const int64_t classes = out.dim(1);
    const int64_t* target = targets.data<int64_t>();
    const C value = -*grad_loss.data<C>() * *scale.data<C>();
    T* dx = out.mutable_data<T>();
    if (!grad_log_probs.accumulate) std::fill(dx, dx + out.numel(), T(C(0)));
    for (int64_t n = 0; n < out.dim(0); ++n) {
      if (target[n] == ignore_index) continue;
      T& to = dx[n * classes + target[n]];
      to = T(static_cast<C>(to) + value);
    }
  });
}

}  // namespace

const LossKernels kCpuLoss{.cross_entropy = cross_entropy,
                           .cross_entropy_backward = cross_entropy_backward,
                           .nll = nll,
                           .nll_backward = nll_backward};

}  // namespace lockstep

// Cross-entropy and negative log-likelihood. Forward reads the logits once: a warp or a block takes
// each row, then one block adds the rows' losses up in f64, in an order that depends on their
// number alone. Backward may write over the logits. A target outside of [0, classes) cannot be an
// exception here, because the host does not wait: it makes the loss and its row of the gradient
// NaN.
#include "lockstep/tensor/ops/loss.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/rows.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

struct Targets {
  const int64_t* of_row;
  int64_t rows, classes, ignore_index;
  __device__ bool ignored(int64_t row) const { return of_row[row] == ignore_index; }
  __device__ bool valid(int64_t row) const { return of_row[row] >= 0 && of_row[row] < classes; }
};

template <class Team, class T>
__global__ void cross_entropy_rows(Targets targets, const T* logits, compute_t<T> smoothing,
                                   compute_t<T>* lse, double* losses) {
  using C = compute_t<T>;
  const int64_t row = Team::row();
  if (row >= targets.rows) return;
  if (targets.ignored(row)) {
    if (Team::rank() == 0) lse[row] = C(0), losses[row] = 0;
    return;
  }
  const T* x = logits + row * targets.classes;
  MaxSum<C> own = MaxSum<C>::none();
  C own_total = C(0);
  read_row<Team>(
      targets.classes, [&](int64_t, C v) { own.add(v), own_total += v; }, x);
  const MaxSum<C> all = Team::sum(own);
  const C total = Team::sum(own_total);
  if (Team::rank() != 0) return;
  lse[row] = all.max + std::log(all.sum);
  if (!targets.valid(row)) {
    losses[row] = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  const C at_target = static_cast<C>(x[targets.of_row[row]]);
  C loss = lse[row] - at_target;
  if (smoothing > C(0)) loss += smoothing * (at_target - total / static_cast<C>(targets.classes));
  losses[row] = static_cast<double>(loss);
}

/// One block: the losses' sum or mean, and by what the gradient of a row is multiplied.
template <class C>
__global__ void finish_kernel(Targets targets, bool mean, const double* losses, C* loss, C* scale) {
  using Team = Team<kBlockWarps>;
  double own = 0;
  int64_t own_count = 0;
  for (int64_t row = Team::rank(); row < targets.rows; row += Team::kThreads) {
    own += losses[row];
    own_count += targets.ignored(row) ? 0 : 1;
  }
  const double total = Team::sum(own);
  const int64_t count = Team::sum(own_count);
  if (Team::rank() != 0) return;
  const double factor = !mean ? 1 : count > 0 ? 1 / static_cast<double>(count) : 0;
  *loss = static_cast<C>(total * factor);
  *scale = static_cast<C>(factor);
}

template <class C>
void finish(const Targets& targets, Reduction reduction, const Tensor& losses, Tensor& loss,
            Tensor& scale) {
  launch(finish_kernel<C>, dim3(1), dim3(kBlock), targets, reduction == Reduction::kMean,
         losses.data<double>(), loss.mutable_data<C>(), scale.mutable_data<C>());
}

Targets targets_of(const Tensor& targets, const Tensor& x, int64_t ignore_index) {
  return {targets.data<int64_t>(), x.dim(0), x.dim(1), ignore_index};
}

void cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                   Tensor& loss, Tensor& lse, Tensor& scale) {
  const Targets t = targets_of(targets, logits, options.ignore_index);
  Tensor losses = Tensor::empty({t.rows}, DType::kF64, logits.device());
  dispatch_floating(logits.dtype(), "cross_entropy", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    if (t.rows > 0) {
      with_team(t.classes, [&](auto team) {
        using Team = decltype(team);
        launch(cross_entropy_rows<Team, T>, Team::grid(t.rows), dim3(kBlock), t, logits.data<T>(),
               static_cast<C>(options.label_smoothing), lse.mutable_data<C>(),
               losses.mutable_data<double>());
      });
    }
    finish<C>(t, options.reduction, losses, loss, scale);
  });
}

template <class Team, class T>
__global__ void cross_entropy_backward_rows(Targets targets, const T* logits,
                                            const compute_t<T>* grad_loss,
                                            const compute_t<T>* scale, compute_t<T> smoothing,
                                            const compute_t<T>* lse, T* grad, bool accumulate) {
  using C = compute_t<T>;
  const int64_t row = Team::row();
  if (row >= targets.rows) return;
  T* to = grad + row * targets.classes;
  if (targets.ignored(row)) {
    if (!accumulate) map_row<Team>(targets.classes, false, to, [](int64_t) { return C(0); });
    return;
  }
  const C factor = targets.valid(row) ? *grad_loss * *scale : std::numeric_limits<C>::quiet_NaN();
  const C everywhere = smoothing / static_cast<C>(targets.classes);
  const C shift = lse[row];
  const int64_t target = targets.of_row[row];
  map_row<Team>(
      targets.classes, accumulate, to,
      [&](int64_t i, C v) {
        const C wanted = everywhere + (i == target ? C(1) - smoothing : C(0));
        return factor * (std::exp(v - shift) - wanted);
      },
      logits + row * targets.classes);
}

void cross_entropy_backward(const Tensor& grad_loss, const Tensor& logits, const Tensor& targets,
                            const CrossEntropyOptions& options, const Tensor& lse,
                            const Tensor& scale, const Dest& grad_logits) {
  if (logits.numel() == 0) return;
  const Targets t = targets_of(targets, logits, options.ignore_index);
  dispatch_floating(logits.dtype(), "cross_entropy_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Tensor out = grad_logits.out;
    with_team(t.classes, [&](auto team) {
      using Team = decltype(team);
      launch(cross_entropy_backward_rows<Team, T>, Team::grid(t.rows), dim3(kBlock), t,
             logits.data<T>(), grad_loss.data<C>(), scale.data<C>(),
             static_cast<C>(options.label_smoothing), lse.data<C>(), out.mutable_data<T>(),
             grad_logits.accumulate);
    });
  });
}

template <class T>
struct NllRow {
  Targets targets;
  const T* log_probs;
  double* losses;
  __device__ void operator()(int64_t row) const {
    double loss = 0;
    if (!targets.ignored(row)) {
      loss = !targets.valid(row) ? std::numeric_limits<double>::quiet_NaN()
                                 : -static_cast<double>(static_cast<compute_t<T>>(
                                       log_probs[row * targets.classes + targets.of_row[row]]));
    }
    losses[row] = loss;
  }
};

void nll(const Tensor& log_probs, const Tensor& targets, const NllOptions& options, Tensor& loss,
         Tensor& scale) {
  const Targets t = targets_of(targets, log_probs, options.ignore_index);
  Tensor losses = Tensor::empty({t.rows}, DType::kF64, log_probs.device());
  dispatch_floating(log_probs.dtype(), "nll", [&](auto zero) {
    using T = decltype(zero);
    for_each(t.rows, NllRow<T>{t, log_probs.data<T>(), losses.mutable_data<double>()});
    finish<compute_t<T>>(t, options.reduction, losses, loss, scale);
  });
}

template <class T>
struct NllBackward {
  using C = compute_t<T>;
  Targets targets;
  const C* grad_loss;
  const C* scale;
  T* grad;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / targets.classes;
    C v = C(0);
    if (!targets.ignored(row)) {
      if (!targets.valid(row)) v = std::numeric_limits<C>::quiet_NaN();
      if (targets.of_row[row] == i % targets.classes) v = -*grad_loss * *scale;
    }
    grad[i] = T(accumulate ? static_cast<C>(grad[i]) + v : v);
  }
};

void nll_backward(const Tensor& grad_loss, const Tensor& targets, int64_t ignore_index,
                  const Tensor& scale, const Dest& grad_log_probs) {
  dispatch_floating(grad_log_probs.out.dtype(), "nll_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Tensor out = grad_log_probs.out;
    for_each(out.numel(),
             NllBackward<T>{targets_of(targets, out, ignore_index), grad_loss.data<C>(),
                            scale.data<C>(), out.mutable_data<T>(), grad_log_probs.accumulate});
  });
}

}  // namespace

const LossKernels kLoss{.cross_entropy = cross_entropy,
                        .cross_entropy_backward = cross_entropy_backward,
                        .nll = nll,
                        .nll_backward = nll_backward};

}  // namespace lockstep::LOCKSTEP_GPU

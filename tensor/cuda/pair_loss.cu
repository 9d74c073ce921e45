// Losses between tensors of one shape. Blocks add up a fixed number of terms each, then one block
// adds up theirs in f64: the order depends on the shape alone.
#include "lockstep/tensor/ops/pair_loss.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/rows.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

constexpr int64_t kTerms = 8 * kBlock;  // of a block

template <class C, class Term>
__global__ void partial_sums_kernel(int64_t count, Term term, double* partial) {
  const int64_t first = blockIdx.x * kTerms;
  C own = C(0);
  for (int64_t i = first + threadIdx.x; i < first + kTerms && i < count; i += kBlock)
    own += term(i);
  const C sum = Team<kBlockWarps>::sum(own);
  if (threadIdx.x == 0) partial[blockIdx.x] = static_cast<double>(sum);
}

/// One block: loss = factor * the sum of `values`.
template <class C>
__global__ void finish_kernel(int64_t count, const double* values, double factor, C* loss) {
  double own = 0;
  for (int64_t i = threadIdx.x; i < count; i += kBlock) own += values[i];
  const double sum = Team<kBlockWarps>::sum(own);
  if (threadIdx.x == 0) *loss = static_cast<C>(sum * factor);
}

template <class C>
void finish(const Tensor& values, double factor, Tensor& loss) {
  launch(finish_kernel<C>, dim3(1), dim3(kBlock), values.numel(), values.data<double>(), factor,
         loss.mutable_data<C>());
}

/// loss = factor * the sum of term(i) for i in [0, count).
template <class C, class Term>
void sum_loss(int64_t count, double factor, Tensor& loss, const Term& term) {
  const unsigned blocks = blocks_for(count, kTerms);
  Tensor partial = Tensor::empty({blocks}, DType::kF64, loss.device());
  if (blocks > 0) {
    launch(partial_sums_kernel<C, Term>, dim3(blocks), dim3(kBlock), count, term,
           partial.mutable_data<double>());
  }
  finish<C>(partial, factor, loss);
}

/// grad (+)= slope(i) * factor * *grad_loss.
template <class T, class Slope>
struct MapGradient {
  using C = compute_t<T>;
  Slope slope;
  const C* grad_loss;
  C factor;
  T* grad;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const C v = *grad_loss * factor * slope(i);
    grad[i] = T(accumulate ? static_cast<C>(grad[i]) + v : v);
  }
};

template <class T, class Slope>
void map_gradient(const Slope& slope, const Tensor& grad_loss, double factor, const Dest& grad) {
  using C = compute_t<T>;
  Tensor target = grad.out;
  for_each(target.numel(), MapGradient<T, Slope>{slope, grad_loss.data<C>(), static_cast<C>(factor),
                                                 target.mutable_data<T>(), grad.accumulate});
}

template <class T>
struct Difference {
  const T* x;
  const T* target;
  __device__ compute_t<T> operator()(int64_t i) const {
    return static_cast<compute_t<T>>(x[i]) - static_cast<compute_t<T>>(target[i]);
  }
};
template <class T>
struct SquaredDifference {
  Difference<T> difference;
  __device__ compute_t<T> operator()(int64_t i) const { return difference(i) * difference(i); }
};

void mse(const Tensor& x, const Tensor& target, double factor, Tensor& loss) {
  dispatch_floating(x.dtype(), "mse", [&](auto zero) {
    using T = decltype(zero);
    sum_loss<compute_t<T>>(x.numel(), factor, loss,
                           SquaredDifference<T>{{x.data<T>(), target.data<T>()}});
  });
}

void mse_backward(const Tensor& grad_loss, const Tensor& x, const Tensor& target, double factor,
                  const Dest& grad_x) {
  dispatch_floating(x.dtype(), "mse_backward", [&](auto zero) {
    using T = decltype(zero);
    map_gradient<T>(Difference<T>{x.data<T>(), target.data<T>()}, grad_loss, 2 * factor, grad_x);
  });
}

template <class T>
struct Bce {
  using C = compute_t<T>;
  const T* logits;
  const T* targets;
  const T* pos_weight;  // may be null: ones
  int64_t channels;

  Bce(const Tensor& x, const Tensor& y, const Tensor& weight)
      : logits(x.data<T>()),
        targets(y.data<T>()),
        pos_weight(weight.defined() ? weight.data<T>() : nullptr),
        channels(weight.defined() ? x.dim(-1) : 1) {}
  __device__ C logit(int64_t i) const { return static_cast<C>(logits[i]); }
  /// Of the negative part, and of -log s(x).
  __device__ C negative(int64_t i) const { return C(1) - static_cast<C>(targets[i]); }
  __device__ C softplus_factor(int64_t i) const {
    const C weight = pos_weight != nullptr ? static_cast<C>(pos_weight[i % channels]) : C(1);
    return C(1) + (weight - C(1)) * static_cast<C>(targets[i]);
  }
};

/// -log s(x) = softplus(-x) and -log(1 - s(x)) = softplus(-x) + x.
template <class T>
struct BceTerm {
  Bce<T> of;
  __device__ compute_t<T> operator()(int64_t i) const {
    using C = compute_t<T>;
    const C x = of.logit(i);
    const C softplus = (x < C(0) ? -x : C(0)) + std::log1p(std::exp(-std::abs(x)));
    return of.negative(i) * x + of.softplus_factor(i) * softplus;
  }
};
template <class T>
struct BceSlope {
  Bce<T> of;
  __device__ compute_t<T> operator()(int64_t i) const {
    using C = compute_t<T>;
    return of.negative(i) - of.softplus_factor(i) / (C(1) + std::exp(of.logit(i)));
  }
};

void bce_with_logits(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight,
                     double factor, Tensor& loss) {
  dispatch_floating(logits.dtype(), "bce_with_logits", [&](auto zero) {
    using T = decltype(zero);
    sum_loss<compute_t<T>>(logits.numel(), factor, loss,
                           BceTerm<T>{Bce<T>(logits, targets, pos_weight)});
  });
}

void bce_with_logits_backward(const Tensor& grad_loss, const Tensor& logits, const Tensor& targets,
                              const Tensor& pos_weight, double factor, const Dest& grad_logits) {
  dispatch_floating(logits.dtype(), "bce_with_logits_backward", [&](auto zero) {
    using T = decltype(zero);
    map_gradient<T>(BceSlope<T>{Bce<T>(logits, targets, pos_weight)}, grad_loss, factor,
                    grad_logits);
  });
}

/// The products that the cosine of two rows is made of, known to all threads of a team. PyTorch
/// adds the same amount to the squared norms.
template <class Team, class T>
struct Cosine {
  using C = compute_t<T>;
  C aa, bb, value;

  __device__ Cosine(const T* a, const T* b, int64_t width) {
    C own_aa = C(0), own_bb = C(0), own_ab = C(0);
    read_row<Team>(
        width, [&](int64_t, C u, C v) { own_aa += u * u, own_bb += v * v, own_ab += u * v; }, a, b);
    constexpr C kEps = C(1e-12);
    aa = Team::sum(own_aa) + kEps;
    bb = Team::sum(own_bb) + kEps;
    value = Team::sum(own_ab) / std::sqrt(aa * bb);
  }
};

/// A label that is neither 1 nor -1 cannot be an exception here, because the host does not wait: it
/// makes the loss NaN.
template <class Team, class T>
__global__ void cosine_kernel(int64_t rows, int64_t width, const T* a, const T* b,
                              const int64_t* labels, double margin, double* losses) {
  const int64_t row = Team::row();
  if (row >= rows) return;
  const double cosine =
      static_cast<double>(Cosine<Team, T>(a + row * width, b + row * width, width).value);
  if (Team::rank() != 0) return;
  const double beyond = cosine < margin ? 0.0 : cosine - margin;  // NaN stays
  losses[row] = labels[row] == 1    ? 1 - cosine
                : labels[row] == -1 ? beyond
                                    : std::numeric_limits<double>::quiet_NaN();
}

void cosine_embedding(const Tensor& a, const Tensor& b, const Tensor& labels, double margin,
                      double factor, Tensor& loss) {
  const int64_t rows = a.dim(0), width = a.dim(1);
  Tensor losses = Tensor::empty({rows}, DType::kF64, a.device());
  dispatch_floating(a.dtype(), "cosine_embedding", [&](auto zero) {
    using T = decltype(zero);
    if (rows > 0) {
      with_team(width, [&](auto team) {
        using Team = decltype(team);
        launch(cosine_kernel<Team, T>, Team::grid(rows), dim3(kBlock), rows, width, a.data<T>(),
               b.data<T>(), labels.data<int64_t>(), margin, losses.mutable_data<double>());
      });
    }
    finish<compute_t<T>>(losses, factor, loss);
  });
}

/// d cos / d a = b / (|a| |b|) - cos * a / |a|^2.
template <class Team, class T>
__global__ void cosine_backward_kernel(int64_t rows, int64_t width, const T* a, const T* b,
                                       const int64_t* labels, double margin, compute_t<T> factor,
                                       const compute_t<T>* grad_loss, T* grad, bool accumulate) {
  using C = compute_t<T>;
  const int64_t row = Team::row();
  if (row >= rows) return;
  const T* u = a + row * width;
  const T* v = b + row * width;
  const Cosine<Team, T> cosine(u, v, width);
  const bool far = static_cast<double>(cosine.value) > margin;
  const C scale = *grad_loss * factor;
  const C slope = labels[row] == 1 ? -scale : far ? scale : C(0);
  const C of_b = slope / std::sqrt(cosine.aa * cosine.bb);
  const C of_a = slope * cosine.value / cosine.aa;
  map_row<Team>(
      width, accumulate, grad + row * width, [&](int64_t, C x, C y) { return of_b * y - of_a * x; },
      u, v);
}

void cosine_embedding_backward(const Tensor& grad_loss, const Tensor& a, const Tensor& b,
                               const Tensor& labels, double margin, double factor,
                               const Dest& grad_a) {
  const int64_t rows = a.dim(0), width = a.dim(1);
  if (a.numel() == 0) return;
  dispatch_floating(a.dtype(), "cosine_embedding_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    Tensor target = grad_a.out;
    with_team(width, [&](auto team) {
      using Team = decltype(team);
      launch(cosine_backward_kernel<Team, T>, Team::grid(rows), dim3(kBlock), rows, width,
             a.data<T>(), b.data<T>(), labels.data<int64_t>(), margin, static_cast<C>(factor),
             grad_loss.data<C>(), target.mutable_data<T>(), grad_a.accumulate);
    });
  });
}

}  // namespace

const PairLossKernels kPairLoss{.mse = mse,
                                .mse_backward = mse_backward,
                                .bce_with_logits = bce_with_logits,
                                .bce_with_logits_backward = bce_with_logits_backward,
                                .cosine_embedding = cosine_embedding,
                                .cosine_embedding_backward = cosine_embedding_backward};

}  // namespace lockstep::LOCKSTEP_GPU

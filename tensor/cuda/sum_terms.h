// sum_terms: target (+)= factor * sum of term(g, a, b) over the dimensions in which the target was
// broadcast; tensor/cpu/sum_terms.h is its twin. Short runs are added up in the elements' compute
// type, runs in f64. Included by kernel sources alone.
#pragma once

#include "lockstep/tensor/cuda/fold.h"
#include "lockstep/tensor/cuda/strided.h"
#include "lockstep/tensor/dest.h"

namespace lockstep::LOCKSTEP_GPU {

inline constexpr int64_t kSumRun = 64;  // terms of a thread before their sum goes to f64

/// A fold; operands of the loops are out, g, a and b.
template <class T, class Term>
struct TermSums {
  using C = compute_t<T>;
  using Value = Sum;

  StridedLoop<4> kept, reduced;
  T* out;
  const T* g;
  const T* a;
  const T* b;
  bool accumulate;
  double factor;
  Term term;

  __device__ Sum lane(int64_t output, int64_t first, int64_t step, int64_t end) const {
    int64_t base[4] = {};
    kept.seek(output, base);
    double total = 0;
    while (first < end) {
      const int64_t left = (end - first + step - 1) / step;
      const int count = static_cast<int>(left < kSumRun ? left : kSumRun);
      C run = C(0);
#pragma unroll 4
      for (int k = 0; k < count; ++k, first += step) {
        int64_t at[4] = {base[0], base[1], base[2], base[3]};
        reduced.seek(first, at);
        run += term(static_cast<C>(g[at[1]]), static_cast<C>(a[at[2]]), static_cast<C>(b[at[3]]));
      }
      total += static_cast<double>(run);
    }
    return {total};
  }
  __device__ void finish(int64_t output, const Sum& sum) const {
    int64_t at[4] = {};
    kept.seek(output, at);
    T& to = out[at[0]];
    const C value = static_cast<C>(factor * sum.total);
    to = T(accumulate ? static_cast<C>(to) + value : value);
  }
};

/// Nothing to add up.
template <class C, class Term>
struct ScaledTerm {
  C factor;
  Term term;
  __device__ C operator()(C g, C a, C b) const { return factor * term(g, a, b); }
};

/// See the head of this file. `g` has the full shape; a, b and the target can be broadcast to it.
/// Pass g for operands that the term does not use.
template <class T, class Term>
void sum_terms(const Tensor& g, const Tensor& a, const Tensor& b, const Dest& target, double factor,
               const Term& term) {
  using C = compute_t<T>;
  Tensor out = target.out;
  const auto loop = broadcast_loop<4>(g.shape(), {out.shape(), g.shape(), a.shape(), b.shape()});
  TermSums<T, Term> sums{{},          {},          out.mutable_data<T>(), g.data<T>(),
                         a.data<T>(), b.data<T>(), target.accumulate,     factor,
                         term};
  bool inner_kept = false;
  for (int d = 0; d < loop.ndim; ++d) {
    const std::array<int64_t, 4> strides = {loop.stride[0][d], loop.stride[1][d], loop.stride[2][d],
                                            loop.stride[3][d]};
    inner_kept = strides[0] != 0;
    (inner_kept ? sums.kept : sums.reduced).push(loop.extent[d], strides);
  }
  if (sums.reduced.numel() == 1) {
    map_strided(loop, ScaledTerm<C, Term>{static_cast<C>(factor), term}, sums.out, sums.accumulate,
                sums.g, sums.a, sums.b);
    return;
  }
  reduce(out.numel(), sums.reduced.numel(), inner_kept ? Neighbours::kOutputs : Neighbours::kTerms,
         sums, out.device());
}

}  // namespace lockstep::LOCKSTEP_GPU

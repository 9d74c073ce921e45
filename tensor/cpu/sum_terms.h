// sum_terms: target (+)= factor * sum of term(g, a, b) over the dimensions in which the target was
// broadcast. The one loop behind sums and behind the gradients of broadcasting ops, which so need
// no temporary.
//
// Sums are made in an order that depends on the shapes alone, so any number of threads gives the
// same bits: short runs in the elements' compute type (vectorised), runs added up in double.
#pragma once

#include "lockstep/tensor/cpu/strided.h"
#include "lockstep/tensor/dest.h"

namespace lockstep::cpu {

inline constexpr int64_t kSumColumns = 128;  // columns that one unit of work adds up side by side
inline constexpr int64_t kSumRun =
    64;  // rows (or vectors of lanes) added up before the sum goes to double
inline constexpr int64_t kSumPieces =
    16;  // into which a long sum is cut when there are few sums to share out
inline constexpr int64_t kSumLanes = 16;

template <class T, class Term>
class TermSum {
  using C = compute_t<T>;

 public:
  /// `g` has the loop's full shape; `a` and `b` can be broadcast to it, and so can the target.
  TermSum(const Tensor& g, const Tensor& a, const Tensor& b, const Dest& target, double factor,
          Term term)
      : g_(g.data<T>()),
        a_(a.data<T>()),
        b_(b.data<T>()),
        accumulate_(target.accumulate),
        factor_(factor),
        term_(term) {
    Tensor out = target.out;
    out_ = out.mutable_data<T>();
    loop_ = broadcast_loop<4>(g.shape(), {g.shape(), a.shape(), b.shape(), out.shape()});
    inner_kept_ = loop_.inner_stride(kTarget) != 0;
    for (int i = 0; i < loop_.ndim - (inner_kept_ ? 1 : 0); ++i) {
      const auto d = static_cast<size_t>(i);
      const Offsets s = {loop_.stride[0][d], loop_.stride[1][d], loop_.stride[2][d],
                         loop_.stride[3][d]};
      (s[kTarget] != 0 ? kept_ : reduced_).push(loop_.extent[d], s);
    }
  }

  void run() {
    with_strides(loop_.inner_stride(kA), loop_.inner_stride(kB), [&]<int A, int B>() {
      if (terms() == 1) {
        map<A, B>();
      } else {
        reduce<A, B>();
      }
    });
  }

 private:
  static constexpr int kA = 1;
  static constexpr int kB = 2;
  static constexpr int kTarget = 3;
  using Offsets = std::array<int64_t, 4>;

  static Offsets plus(Offsets a, const Offsets& b) {
    for (size_t k = 0; k < 4; ++k) a[k] += b[k];
    return a;
  }
  int64_t terms() const { return reduced_.numel(); }  // in each sum

  template <int A, int B>
  C term(const T* g, const T* a, const T* b, int64_t i) const {
    return term_(static_cast<C>(g[i]), static_cast<C>(a[i * A]), static_cast<C>(b[i * B]));
  }

  /// Nothing to add up: elementwise.
  template <int A, int B>
  void map() {
    for_each_row(loop_, [&](const Offsets& at, int64_t count) {
      const T* g = g_ + at[0];
      const T* a = a_ + at[kA];
      const T* b = b_ + at[kB];
      T* out = out_ + at[kTarget];
      const C f = static_cast<C>(factor_);
      if (accumulate_) {
        for (int64_t i = 0; i < count; ++i)
          out[i] = T(static_cast<C>(out[i]) + f * term<A, B>(g, a, b, i));
      } else {
        for (int64_t i = 0; i < count; ++i) out[i] = T(f * term<A, B>(g, a, b, i));
      }
    });
  }

  template <int A, int B>
  void reduce() {
    const int64_t columns = inner_kept_ ? loop_.inner() : 1;
    const int64_t chunks = (columns + kSumColumns - 1) / kSumColumns;
    const int64_t units = (kept_.ndim == 0 ? 1 : kept_.numel()) * chunks;
    if (units == 0) return;
    const int64_t work = terms() * std::min(columns, kSumColumns);
    const bool cut = units < kSumPieces && work >= 2 * kGrain;
    const auto at_unit = [&](int64_t unit, auto&& fn) {
      Walker<4> kept(kept_, kept_.ndim);
      kept.seek(unit / chunks);
      const int64_t first = unit % chunks * kSumColumns;
      fn(inner_kept_ ? plus(kept.offset, {first, first * A, first * B, first}) : kept.offset,
         std::min(columns - first, kSumColumns));
    };
    if (!cut) {
      parallel_for(units, std::max<int64_t>(kGrain / std::max<int64_t>(work, 1), 1),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t unit = begin; unit < end; ++unit) {
                       at_unit(unit, [&](const Offsets& base, int64_t width) {
                         double total[kSumColumns];
                         std::fill_n(total, width, 0.0);
                         sum<A, B>(base, width, 0, terms(), total);
                         store(base, width, total);
                       });
                     }
                   });
      return;
    }
    for (int64_t unit = 0; unit < units; ++unit) {
      at_unit(unit, [&](const Offsets& base, int64_t width) {
        double partial[kSumPieces][kSumColumns] = {};
        parallel_for(kSumPieces, 1, [&](int64_t begin, int64_t end) {
          for (int64_t p = begin; p < end; ++p) {
            sum<A, B>(base, width, terms() * p / kSumPieces, terms() * (p + 1) / kSumPieces,
                      partial[p]);
          }
        });
        for (int64_t p = 1; p < kSumPieces; ++p) {
          for (int64_t c = 0; c < width; ++c) partial[0][c] += partial[p][c];
        }
        store(base, width, partial[0]);
      });
    }
  }

  /// Adds terms [begin, end) of each of the `width` sums that start at `base` to `total`.
  template <int A, int B>
  void sum(const Offsets& base, int64_t width, int64_t begin, int64_t end, double* total) const {
    if (inner_kept_) {
      sum_columns<A, B>(base, width, begin, end, total);
      return;
    }
    walk_rows(reduced_, begin, end, [&](const Offsets& more, int64_t count) {
      const Offsets o = plus(base, more);
      total[0] += sum_row<A, B>(g_ + o[0], a_ + o[kA], b_ + o[kB], count);
    });
  }

  template <int A, int B>
  void sum_columns(const Offsets& base, int64_t width, int64_t begin, int64_t end,
                   double* total) const {
    if (begin >= end) return;
    Walker<4> row(reduced_, reduced_.ndim);
    row.seek(begin);
    while (begin < end) {
      C run[kSumColumns] = {};
      for (const int64_t stop = std::min(begin + kSumRun, end); begin < stop; ++begin, row.next()) {
        const Offsets o = plus(base, row.offset);
        const T* g = g_ + o[0];
        const T* a = a_ + o[kA];
        const T* b = b_ + o[kB];
        for (int64_t c = 0; c < width; ++c) run[c] += term<A, B>(g, a, b, c);
      }
      for (int64_t c = 0; c < width; ++c) total[c] += static_cast<double>(run[c]);
    }
  }

  template <int A, int B>
  double sum_row(const T* g, const T* a, const T* b, int64_t count) const {
    double total = 0;
    int64_t i = 0;
    while (count - i >= kSumLanes) {
      C lane[kSumLanes] = {};
      const int64_t stop = i + std::min((count - i) / kSumLanes, kSumRun) * kSumLanes;
      for (; i < stop; i += kSumLanes) {
        for (int64_t j = 0; j < kSumLanes; ++j) lane[j] += term<A, B>(g, a, b, i + j);
      }
      for (int64_t j = 0; j < kSumLanes; ++j) total += static_cast<double>(lane[j]);
    }
    for (; i < count; ++i) total += static_cast<double>(term<A, B>(g, a, b, i));
    return total;
  }

  void store(const Offsets& base, int64_t width, const double* total) const {
    T* out = out_ + base[kTarget];
    for (int64_t c = 0; c < width; ++c) {
      const C sum = static_cast<C>(factor_ * total[c]);
      out[c] = T(accumulate_ ? static_cast<C>(out[c]) + sum : sum);
    }
  }

  const T* g_;
  const T* a_;
  const T* b_;
  T* out_;
  bool accumulate_;
  double factor_;
  Term term_;
  StridedLoop<4> loop_;     // all dimensions; operands g, a, b, target
  StridedLoop<4> kept_;     // the outer dimensions that the target has
  StridedLoop<4> reduced_;  // those that are summed away, with the innermost one if it is
  bool inner_kept_;
};

/// See the head of this file. `term` is called as term(C g, C a, C b) with C = compute_t<T>. Pass g
/// for operands that the term does not use.
template <class T, class Term>
void sum_terms(const Tensor& g, const Tensor& a, const Tensor& b, const Dest& target, double factor,
               Term term) {
  TermSum<T, Term>(g, a, b, target, factor, term).run();
}

}  // namespace lockstep::cpu

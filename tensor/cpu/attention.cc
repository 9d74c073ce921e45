// Attention over blocks of queries: a block's scores against all keys of its head lie in a thread's
// scratch memory. Forward shares out blocks of all heads; backward whole heads, so that the
// gradients of keys and values are added up by one thread in one order.
//
// The threads are ours alone: Eigen's own would split small products.
#define EIGEN_DONT_PARALLELIZE
#include "lockstep/tensor/ops/attention.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/philox_lanes.h"
#include "lockstep/tensor/cpu/rows.h"

#include <Eigen/Core>
#include <type_traits>
#include <utility>

namespace lockstep {
namespace {

using cpu::exp_of;

constexpr int64_t kQueries = 64;  // in a block

template <class C>
using Matrix = Eigen::Matrix<C, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class C>
using Block = Eigen::Map<Matrix<C>>;
template <class C>
using Rows = Eigen::Map<const Matrix<C>, Eigen::Unaligned, Eigen::OuterStride<>>;

/// Memory of one thread, handed out piece by piece.
template <class C>
class Scratch {
 public:
  explicit Scratch(int64_t count) : memory_(Tensor::empty({count}, dtype_of<C>)) {
    next_ = memory_.mutable_data<C>();
  }
  C* take(int64_t count) { return std::exchange(next_, next_ + count); }

 private:
  Tensor memory_;
  C* next_;
};

/// Elements of scratch that reading `rows` rows takes: none when they are read where they lie.
template <class T>
int64_t scratch_for(int64_t rows, int64_t width) {
  return std::is_same_v<T, compute_t<T>> ? 0 : rows * width;
}

/// One operand's memory and where its heads lie.
template <class T>
struct Operand {
  using C = compute_t<T>;
  const T* data;
  AttentionSteps steps;

  const T* row(int64_t batch, int64_t head, int64_t i) const {
    return data + steps.offset + batch * steps.batch + head * steps.head + i * steps.row;
  }
  /// Rows [first, first + count) of a head, converted into `scratch` when they are not in C.
  Rows<C> rows(int64_t batch, int64_t head, int64_t first, int64_t count, int64_t width,
               C* scratch) const {
    const T* from = row(batch, head, first);
    if constexpr (std::is_same_v<T, C>) {
      return Rows<C>(from, count, width, Eigen::OuterStride<>(steps.row));
    } else {
      for (int64_t i = 0; i < count; ++i) {
        for (int64_t d = 0; d < width; ++d)
          scratch[i * width + d] = static_cast<C>(from[i * steps.row + d]);
      }
      return Rows<C>(scratch, count, width, Eigen::OuterStride<>(width));
    }
  }
};

/// Where rows of a head are written or added.
template <class T>
struct Target {
  using C = compute_t<T>;
  T* data = nullptr;
  AttentionSteps steps = {};
  bool accumulate = false;

  Target(const Dest& dest, const AttentionSteps& at) : steps(at), accumulate(dest.accumulate) {
    Tensor out = dest.out;
    if (out.defined()) data = out.mutable_data<T>();
  }
  bool wanted() const { return data != nullptr; }
  void put(int64_t batch, int64_t head, int64_t first, const Block<C>& values) const {
    T* to = data + steps.offset + batch * steps.batch + head * steps.head + first * steps.row;
    for (int64_t i = 0; i < values.rows(); ++i) {
      const C* from = values.data() + i * values.cols();
      T* line = to + i * steps.row;
      for (int64_t d = 0; d < values.cols(); ++d)
        line[d] = T(accumulate ? static_cast<C>(line[d]) + from[d] : from[d]);
    }
  }
};

/// Which keys a query sees.
struct Visible {
  const uint8_t* padding;  // of the sample; null: none
  int64_t first;           // the first key that is not padding
  bool causal;

  Visible(const Tensor& mask, const AttentionLayout& l, bool is_causal, int64_t batch)
      : padding(mask.defined() ? mask.data<uint8_t>() + batch * l.keys : nullptr),
        first(0),
        causal(is_causal) {
    while (padding != nullptr && first < l.keys && padding[first] != 0) ++first;
  }
  /// Keys before this one may be seen.
  int64_t end(int64_t query, int64_t keys) const {
    return causal ? std::min(query + 1, keys) : keys;
  }
};

/// Calls fn(first, count, factors) for pieces of the probabilities of row number `row_number`: what
/// dropout multiplies each by, 0 where it is dropped.
template <class C, class Fn>
void with_factors(const AttentionParams& params, int64_t row_number, int64_t keys, int64_t count,
                  Fn&& fn) {
  const int64_t first_block = row_number * ((keys + 3) / 4);
  const C factor = static_cast<C>(params.dropout.factor);
  constexpr int64_t kStep = 4 * cpu::kPhiloxLanes;
  cpu::PhiloxNumbers numbers;
  C factors[kStep];
  for (int64_t at = 0; at < count; at += kStep) {
    cpu::philox_lanes(params.dropout.range, first_block + at / 4, numbers);
    for (size_t i = 0; i < kStep; ++i)
      factors[i] = (numbers[i] >> 8) >= params.dropout.threshold ? factor : C(0);
    fn(at, std::min(kStep, count - at), factors);
  }
}

template <class C>
void drop(const AttentionParams& params, int64_t row_number, int64_t keys, int64_t count, C* row) {
  with_factors<C>(params, row_number, keys, count, [=](int64_t at, int64_t n, const C* factors) {
    for (int64_t i = 0; i < n; ++i) row[at + i] *= factors[i];
  });
}

/// Scores become probabilities, those that are not seen 0; returns the log-sum-exp, infinite when
/// none is.
template <class C>
C softmax_row(const Visible& visible, int64_t end, int64_t count, C scale, C* row) {
  std::fill(row + end, row + count, C(0));
  if (visible.first >= end) {
    std::fill(row, row + end, C(0));
    return std::numeric_limits<C>::infinity();
  }
  for (int64_t j = 0; j < end; ++j) row[j] *= scale;
  if (visible.padding != nullptr) {
    for (int64_t j = 0; j < end; ++j)
      row[j] = visible.padding[j] != 0 ? -std::numeric_limits<C>::infinity() : row[j];
  }
  const C top = cpu::row_max(row, end);
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < end; ++j) {
    row[j] = exp_of(row[j] - top);
    sum += row[j];
  }
  const C inverse = C(1) / sum;
  for (int64_t j = 0; j < end; ++j) row[j] *= inverse;
  return top + std::log(sum);
}

/// The same probabilities again, from the log-sum-exp.
template <class C>
void probabilities(const Visible& visible, int64_t end, int64_t count, C scale, C lse, C* row) {
#pragma omp simd
  for (int64_t j = 0; j < end; ++j) row[j] = exp_of(row[j] * scale - lse);
  if (visible.padding != nullptr) {
    for (int64_t j = 0; j < end; ++j) row[j] = visible.padding[j] != 0 ? C(0) : row[j];
  }
  std::fill(row + end, row + count, C(0));
}

void forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding,
             const AttentionLayout& l, const AttentionParams& params, Tensor& out, Tensor& lse) {
  dispatch_floating(q.dtype(), "attention", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const Operand<T> qs{q.data<T>(), l.q}, ks{k.data<T>(), l.k}, vs{v.data<T>(), l.v};
    const Target<T> to({out}, l.out);
    C* sums = lse.mutable_data<C>();
    const C scale = static_cast<C>(params.scale);
    const int64_t blocks = (l.queries + kQueries - 1) / kQueries;
    const int64_t width = l.head_dim;
    cpu::parallel_for(l.batch * l.heads * blocks, 1, [&](int64_t begin, int64_t end) {
      Scratch<C> scratch(kQueries * (l.keys + width) + scratch_for<T>(kQueries, width) +
                         2 * scratch_for<T>(l.keys, width));
      C* scores = scratch.take(kQueries * l.keys);
      C* results = scratch.take(kQueries * width);
      C* of_q = scratch.take(scratch_for<T>(kQueries, width));
      C* of_k = scratch.take(scratch_for<T>(l.keys, width));
      C* of_v = scratch.take(scratch_for<T>(l.keys, width));
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t head = unit / blocks % l.heads, batch = unit / blocks / l.heads;
        const int64_t first = unit % blocks * kQueries;
        const int64_t count = std::min(kQueries, l.queries - first);
        const Visible visible(padding, l, params.causal, batch);
        const int64_t keys = visible.end(first + count - 1, l.keys);
        Block<C> s(scores, count, keys);
        s.noalias() = qs.rows(batch, head, first, count, width, of_q) *
                      ks.rows(batch, head, 0, keys, width, of_k).transpose();
        for (int64_t i = 0; i < count; ++i) {
          const int64_t row = (batch * l.heads + head) * l.queries + first + i;
          C* line = scores + i * keys;
          sums[row] = softmax_row(visible, visible.end(first + i, l.keys), keys, scale, line);
          if (params.drop) drop(params, row, l.keys, keys, line);
        }
        Block<C> result(results, count, width);
        result.noalias() = s * vs.rows(batch, head, 0, keys, width, of_v);
        to.put(batch, head, first, result);
      }
    });
  });
}

template <class T>
struct Backward {
  using C = compute_t<T>;
  const AttentionLayout& l;
  const AttentionParams& params;
  const Tensor& padding;
  Operand<T> q, k, v, grad_out, out;
  const C* lse;
  Target<T> grad_q, grad_k, grad_v;

  int64_t scratch() const {
    return 2 * kQueries * l.keys + (kQueries + 2 * l.keys) * l.head_dim +
           3 * scratch_for<T>(kQueries, l.head_dim) + 2 * scratch_for<T>(l.keys, l.head_dim);
  }

  void head(int64_t batch, int64_t h, Scratch<C> memory) const {
    const int64_t width = l.head_dim;
    const C scale = static_cast<C>(params.scale);
    const Visible visible(padding, l, params.causal, batch);
    C* of_p = memory.take(kQueries * l.keys);
    C* of_dp = memory.take(kQueries * l.keys);
    C* of_dq = memory.take(kQueries * width);
    Block<C> dk(memory.take(l.keys * width), l.keys, width);
    Block<C> dv(memory.take(l.keys * width), l.keys, width);
    dk.setZero();
    dv.setZero();
    C* read_q = memory.take(scratch_for<T>(kQueries, width));
    C* read_do = memory.take(scratch_for<T>(kQueries, width));
    C* read_o = memory.take(scratch_for<T>(kQueries, width));
    const Rows<C> all_k =
        k.rows(batch, h, 0, l.keys, width, memory.take(scratch_for<T>(l.keys, width)));
    const Rows<C> all_v =
        v.rows(batch, h, 0, l.keys, width, memory.take(scratch_for<T>(l.keys, width)));
    for (int64_t first = 0; first < l.queries; first += kQueries) {
      const int64_t count = std::min(kQueries, l.queries - first);
      const int64_t keys = visible.end(first + count - 1, l.keys);
      const Rows<C> block_q = q.rows(batch, h, first, count, width, read_q);
      const Rows<C> block_do = grad_out.rows(batch, h, first, count, width, read_do);
      const Rows<C> block_o = out.rows(batch, h, first, count, width, read_o);
      Block<C> p(of_p, count, keys), dp(of_dp, count, keys);
      p.noalias() = block_q * all_k.topRows(keys).transpose();
      dp.noalias() = block_do * all_v.topRows(keys).transpose();
      const int64_t row = (batch * l.heads + h) * l.queries + first;
      for (int64_t i = 0; i < count; ++i) {
        probabilities(visible, visible.end(first + i, l.keys), keys, scale, lse[row + i],
                      of_p + i * keys);
      }
      // dp becomes the gradient of the scores; the sum over a row of p * dp is that of grad_out *
      // out, with dropout as well. Then p becomes what was multiplied with v.
      for (int64_t i = 0; i < count; ++i) {
        C* line = of_dp + i * keys;
        C* probability = of_p + i * keys;
        const C delta = block_do.row(i).dot(block_o.row(i));
        if (!params.drop) {
          for (int64_t j = 0; j < keys; ++j) line[j] = probability[j] * (line[j] - delta) * scale;
          continue;
        }
        with_factors<C>(params, row + i, l.keys, keys,
                        [=](int64_t at, int64_t n, const C* factors) {
                          C* d = line + at;
                          C* p_of = probability + at;
                          for (int64_t j = 0; j < n; ++j) {
                            d[j] = p_of[j] * (d[j] * factors[j] - delta) * scale;
                            p_of[j] *= factors[j];
                          }
                        });
      }
      if (grad_q.wanted()) {
        Block<C> dq(of_dq, count, width);
        dq.noalias() = dp * all_k.topRows(keys);
        grad_q.put(batch, h, first, dq);
      }
      if (grad_k.wanted()) dk.topRows(keys).noalias() += dp.transpose() * block_q;
      if (grad_v.wanted()) dv.topRows(keys).noalias() += p.transpose() * block_do;
    }
    if (grad_k.wanted()) grad_k.put(batch, h, 0, dk);
    if (grad_v.wanted()) grad_v.put(batch, h, 0, dv);
  }
};

void backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& padding, const Tensor& out, const Tensor& lse, const AttentionLayout& l,
              const AttentionParams& params, const Dest& grad_q, const Dest& grad_k,
              const Dest& grad_v) {
  dispatch_floating(q.dtype(), "attention_backward", [&](auto zero) {
    using T = decltype(zero);
    const Backward<T> job{l,
                          params,
                          padding,
                          {q.data<T>(), l.q},
                          {k.data<T>(), l.k},
                          {v.data<T>(), l.v},
                          {grad_out.data<T>(), l.out},
                          {out.data<T>(), l.out},
                          lse.data<compute_t<T>>(),
                          {grad_q, l.q},
                          {grad_k, l.k},
                          {grad_v, l.v}};
    cpu::parallel_for(l.batch * l.heads, 1, [&](int64_t begin, int64_t end) {
      const Scratch<compute_t<T>> scratch(job.scratch());
      for (int64_t unit = begin; unit < end; ++unit)
        job.head(unit / l.heads, unit % l.heads, scratch);
    });
  });
}

}  // namespace

const AttentionKernels kCpuAttention{.forward = forward, .backward = backward};

}  // namespace lockstep

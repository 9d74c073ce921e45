// Attention as plainly as a GPU has it: for every dtype, head size and option, the reference for
// faster kernels and what they fall back to. A block takes 8 rows of a head; the weights of 32
// columns for them lie in shared memory, one computed by each thread, and are then multiplied with
// the rows that they are for. Forward keeps a running maximum and sum (online softmax); backward
// computes the probabilities again from the log-sum-exp, once for each of the three gradients. No
// atomics: every row of a result is added up by one block, in the order of its columns.
#include "lockstep/tensor/ops/attention.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/tables.h"
#include "lockstep/tensor/cuda/vector.h"

#include <cmath>
#include <limits>

namespace lockstep::LOCKSTEP_GPU {
namespace {

constexpr int kWide = 32;  // columns at once
constexpr int kRows = 8;   // rows of a block
constexpr int kOwn = 4;    // elements of a row that a thread adds up in one pass over the columns
constexpr int64_t kPass = kOwn * kWide;

/// One operand. A unit is a head of a sample: unit = batch * heads + head.
template <class T>
struct Rows {
  T* data;
  AttentionSteps steps;
  int64_t heads;
  __device__ T* operator()(int64_t unit, int64_t i) const {
    return data + steps.offset + unit / heads * steps.batch + unit % heads * steps.head +
           i * steps.row;
  }
};

template <class T>
__device__ compute_t<T> dot(const T* a, const T* b, int64_t count) {
  using C = compute_t<T>;
  constexpr int N = kWidth<T>;
  C sum = C(0);
  int64_t d = 0;
  // Neighbours in a warp read rows that lie far apart: 16 bytes at once fetch fewer lines.
  if ((reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) % sizeof(Pack<T, N>) == 0) {
    for (; d + N <= count; d += N) {
      const Pack<T, N> u = load<N>(a + d), v = load<N>(b + d);
      for (int k = 0; k < N; ++k) sum += static_cast<C>(u[k]) * static_cast<C>(v[k]);
    }
  }
  for (; d < count; ++d) sum += static_cast<C>(a[d]) * static_cast<C>(b[d]);
  return sum;
}

/// The scores and what hides or drops them.
template <class T>
struct Scores {
  using C = compute_t<T>;
  Rows<const T> q, k;
  const uint8_t* padding;  // may be null
  int64_t heads, queries, keys, width;
  AttentionParams params;

  __device__ bool seen(int64_t unit, int64_t query, int64_t key) const {
    return query < queries && key < keys && (!params.causal || key <= query) &&
           (padding == nullptr || padding[unit / heads * keys + key] == 0);
  }
  __device__ C operator()(int64_t unit, int64_t query, int64_t key) const {
    return dot(q(unit, query), k(unit, key), width) * static_cast<C>(params.scale);
  }
  /// What dropout multiplies this probability by.
  __device__ C kept(int64_t unit, int64_t query, int64_t key) const {
    if (!params.drop) return C(1);
    const int64_t number = (unit * queries + query) * ((keys + 3) / 4 * 4) + key;
    const DropoutMask& mask = params.dropout;
    return (mask.range.bits(number) >> 8) >= mask.threshold ? static_cast<C>(mask.factor) : C(0);
  }
};

template <class T>
__global__ void attention_kernel(Scores<T> score, Rows<const T> v, Rows<T> out, compute_t<T>* lse) {
  using C = compute_t<T>;
  constexpr C kInfinite = std::numeric_limits<C>::infinity();
  LOCKSTEP_SHARED(C, scores, [kRows][kWide]);
  LOCKSTEP_SHARED(C, weights, [kRows][kWide]);
  LOCKSTEP_SHARED(C, sums, [kRows][kWide]);
  const int tx = static_cast<int>(threadIdx.x);
  const int ty = static_cast<int>(threadIdx.y);
  const int64_t tiles = (score.queries + kRows - 1) / kRows;
  const int64_t unit = blockIdx.x / tiles;
  const int64_t query = blockIdx.x % tiles * kRows + ty;
  const int64_t last =
      (blockIdx.x % tiles + 1) * kRows;  // no query of the block sees keys from here on
  const int64_t keys = score.params.causal && last < score.keys ? last : score.keys;
  for (int64_t first = 0; first == 0 || first < score.width; first += kPass) {
    C own[kOwn] = {};
    C top = std::numeric_limits<C>::lowest();
    C sum = C(0);  // of the columns that are this thread's
    for (int64_t key0 = 0; key0 < keys; key0 += kWide) {
      const int64_t key = key0 + tx;
      const bool seen = score.seen(unit, query, key);
      scores[ty][tx] = seen ? score(unit, query, key) : -kInfinite;
      __syncthreads();
      C highest = top;
      for (int j = 0; j < kWide; ++j) highest = scores[ty][j] > highest ? scores[ty][j] : highest;
      const C shrink = std::exp(top - highest);
      top = highest;
      const C e = std::exp(scores[ty][tx] - top);  // 0 where nothing is seen
      sum = sum * shrink + e;
      weights[ty][tx] = seen ? e * score.kept(unit, query, key) : C(0);
      __syncthreads();
      for (int o = 0; o < kOwn; ++o) own[o] *= shrink;
      for (int j = 0; j < kWide && key0 + j < keys; ++j) {
        const T* values = v(unit, key0 + j);
        for (int o = 0; o < kOwn; ++o) {
          const int64_t d = first + o * kWide + tx;
          if (d < score.width) own[o] += weights[ty][j] * static_cast<C>(values[d]);
        }
      }
    }
    sums[ty][tx] = sum;
    __syncthreads();
    C total = C(0);
    for (int j = 0; j < kWide; ++j) total += sums[ty][j];
    if (query < score.queries) {
      for (int o = 0; o < kOwn; ++o) {
        const int64_t d = first + o * kWide + tx;
        if (d < score.width) out(unit, query)[d] = T(total == C(0) ? C(0) : own[o] / total);
      }
      if (tx == 0)
        lse[unit * score.queries + query] = total == C(0) ? kInfinite : top + std::log(total);
    }
    __syncthreads();
  }
}

/// target row r (+)= the sum over columns c of weight(unit, r, c) * source row c.
template <class T, class Weight>
__global__ void weighted_rows_kernel(Weight weight, int64_t rows, int64_t columns, int64_t width,
                                     Rows<const T> source, Rows<T> target, bool accumulate) {
  using C = compute_t<T>;
  LOCKSTEP_SHARED(C, weights, [kRows][kWide]);
  const int tx = static_cast<int>(threadIdx.x);
  const int ty = static_cast<int>(threadIdx.y);
  const int64_t tiles = (rows + kRows - 1) / kRows;
  const int64_t unit = blockIdx.x / tiles;
  const int64_t row = blockIdx.x % tiles * kRows + ty;
  for (int64_t first = 0; first < width; first += kPass) {
    C own[kOwn] = {};
    for (int64_t column0 = 0; column0 < columns; column0 += kWide) {
      weights[ty][tx] = weight(unit, row, column0 + tx);
      __syncthreads();
      for (int j = 0; j < kWide && column0 + j < columns; ++j) {
        const T* values = source(unit, column0 + j);
        for (int o = 0; o < kOwn; ++o) {
          const int64_t d = first + o * kWide + tx;
          if (d < width) own[o] += weights[ty][j] * static_cast<C>(values[d]);
        }
      }
      __syncthreads();
    }
    if (row >= rows) continue;  // there are no barriers but those in the loop over columns
    for (int o = 0; o < kOwn; ++o) {
      const int64_t d = first + o * kWide + tx;
      if (d >= width) continue;
      T& to = target(unit, row)[d];
      to = T(accumulate ? static_cast<C>(to) + own[o] : own[o]);
    }
  }
}

/// Probabilities after dropout, and the gradients of the scores; 0 where nothing is seen.
template <class T>
struct Probability {
  using C = compute_t<T>;
  Scores<T> score;
  const C* lse;
  __device__ C operator()(int64_t unit, int64_t query, int64_t key) const {
    if (!score.seen(unit, query, key)) return C(0);
    return std::exp(score(unit, query, key) - lse[unit * score.queries + query]) *
           score.kept(unit, query, key);
  }
};

template <class T>
struct ScoreGradient {
  using C = compute_t<T>;
  Scores<T> score;
  Rows<const T> v, grad_out;
  const C* lse;
  const C* delta;
  __device__ C operator()(int64_t unit, int64_t query, int64_t key) const {
    if (!score.seen(unit, query, key)) return C(0);
    const int64_t row = unit * score.queries + query;
    const C probability = std::exp(score(unit, query, key) - lse[row]);
    const C grad = dot(grad_out(unit, query), v(unit, key), score.width);
    return probability * (grad * score.kept(unit, query, key) - delta[row]) *
           static_cast<C>(score.params.scale);
  }
};

template <class Weight>
struct Transposed {
  Weight weight;
  __device__ auto operator()(int64_t unit, int64_t key, int64_t query) const {
    return weight(unit, query, key);
  }
};

/// delta[row] = grad_out . out, the sum over the row of probability * its gradient.
template <class T>
struct Delta {
  Rows<const T> grad_out, out;
  int64_t queries, width;
  compute_t<T>* delta;
  __device__ void operator()(int64_t i) const {
    delta[i] = dot(grad_out(i / queries, i % queries), out(i / queries, i % queries), width);
  }
};

template <class T>
Scores<T> scores_of(const Tensor& q, const Tensor& k, const Tensor& padding,
                    const AttentionLayout& l, const AttentionParams& params) {
  return {{q.data<T>(), l.q, l.heads},
          {k.data<T>(), l.k, l.heads},
          padding.defined() ? padding.data<uint8_t>() : nullptr,
          l.heads,
          l.queries,
          l.keys,
          l.head_dim,
          params};
}

void forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding,
             const AttentionLayout& l, const AttentionParams& params, Tensor& out, Tensor& lse) {
  dispatch_floating(q.dtype(), "attention", [&](auto zero) {
    using T = decltype(zero);
    const int64_t blocks = l.batch * l.heads * ((l.queries + kRows - 1) / kRows);
    if (blocks == 0) return;
    launch(attention_kernel<T>, dim3(static_cast<unsigned>(blocks)), dim3(kWide, kRows),
           scores_of<T>(q, k, padding, l, params), Rows<const T>{v.data<T>(), l.v, l.heads},
           Rows<T>{out.mutable_data<T>(), l.out, l.heads}, lse.mutable_data<compute_t<T>>());
  });
}

template <class T, class Weight>
void weighted_rows(const Weight& weight, const AttentionLayout& l, int64_t rows, int64_t columns,
                   const Rows<const T>& source, const Dest& dest, const AttentionSteps& steps) {
  Tensor target = dest.out;
  const int64_t blocks = l.batch * l.heads * ((rows + kRows - 1) / kRows);
  if (!target.defined() || blocks == 0) return;
  launch(weighted_rows_kernel<T, Weight>, dim3(static_cast<unsigned>(blocks)), dim3(kWide, kRows),
         weight, rows, columns, l.head_dim, source,
         Rows<T>{target.mutable_data<T>(), steps, l.heads}, dest.accumulate);
}

void backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& padding, const Tensor& out, const Tensor& lse, const AttentionLayout& l,
              const AttentionParams& params, const Dest& grad_q, const Dest& grad_k,
              const Dest& grad_v) {
  dispatch_floating(q.dtype(), "attention_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const Scores<T> score = scores_of<T>(q, k, padding, l, params);
    const Rows<const T> values{v.data<T>(), l.v, l.heads};
    const Rows<const T> grads{grad_out.data<T>(), l.out, l.heads};
    Tensor delta = Tensor::empty(lse.shape(), lse.dtype(), lse.device());
    for_each(delta.numel(), Delta<T>{grads,
                                     {out.data<T>(), l.out, l.heads},
                                     l.queries,
                                     l.head_dim,
                                     delta.mutable_data<C>()});
    const ScoreGradient<T> gradient{score, values, grads, lse.data<C>(), delta.data<C>()};
    const Probability<T> probability{score, lse.data<C>()};
    weighted_rows<T>(gradient, l, l.queries, l.keys, score.k, grad_q, l.q);
    weighted_rows<T>(Transposed<ScoreGradient<T>>{gradient}, l, l.keys, l.queries, score.q, grad_k,
                     l.k);
    weighted_rows<T>(Transposed<Probability<T>>{probability}, l, l.keys, l.queries, grads, grad_v,
                     l.v);
  });
}

}  // namespace

const AttentionKernels kAttention{.forward = forward, .backward = backward};

}  // namespace lockstep::LOCKSTEP_GPU

// Sums over the rows of a matrix, for each column: the gradient of a bias, of a norm's weight.
// Included by kernel sources alone.
#pragma once

#include "lockstep/tensor/cuda/fold.h"

namespace lockstep::LOCKSTEP_GPU {

// A block of a kernel that adds up columns in its own way.
inline constexpr int kSumColumns = 32;  // neighbours in memory, so that a warp reads whole lines
inline constexpr int kSumRows = 8;      // rows that a block reads at once

/// A fold: an output is a column, its terms are the rows.
template <class S, class Value_, class Out>
struct ColumnSums {
  struct Value {
    S sum;
    static __device__ Value none() { return {S(0)}; }
    __device__ void merge(const Value& other) { sum += other.sum; }
  };

  int64_t columns;
  Value_ value;
  Out* out;
  bool accumulate;

  __device__ Value lane(int64_t column, int64_t first, int64_t step, int64_t end) const {
    S sum = S(0);
#pragma unroll 4
    for (int64_t row = first; row < end; row += step) sum += value(row * columns + column, column);
    return {sum};
  }
  __device__ void finish(int64_t column, const Value& total) const {
    out[column] = Out(accumulate ? static_cast<S>(out[column]) + total.sum : total.sum);
  }
};

/// out[c] (+)= the sum over r of value(r * columns + c, c); added up in S, in an order that depends
/// on the shape alone.
template <class S, class Value, class Out>
void column_sums(int64_t rows, int64_t columns, Value value, Out* out, bool accumulate) {
  reduce(columns, rows, Neighbours::kOutputs,
         ColumnSums<S, Value, Out>{columns, value, out, accumulate}, Device::cuda());
}

}  // namespace lockstep::LOCKSTEP_GPU

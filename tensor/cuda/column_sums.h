// Sums over the rows of a matrix, for each column: the gradient of a bias, the statistics of batch
// normalisation. Included by kernel sources alone.
#pragma once

#include "lockstep/tensor/cuda/launch.h"

namespace lockstep::LOCKSTEP_GPU {

inline constexpr int kSumColumns = 32;  // neighbours in memory, so that a warp reads whole lines
inline constexpr int kSumRows = 8;      // rows that a block reads at once

/// out[c] (+)= the sum over r of value(r * columns + c, c); added up in Sum, in an order that
/// depends on the shape alone.
template <class Sum, class Value, class Out>
__global__ void column_sums_kernel(int64_t rows, int64_t columns, Value value, Out* out,
                                   bool accumulate) {
  LOCKSTEP_SHARED(Sum, partial, [kSumRows][kSumColumns]);
  const int64_t column = int64_t{blockIdx.x} * kSumColumns + threadIdx.x;
  Sum sum = Sum(0);
  if (column < columns) {
    for (int64_t row = threadIdx.y; row < rows; row += kSumRows)
      sum += value(row * columns + column, column);
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < kSumRows; ++i) sum += partial[i][threadIdx.x];
  out[column] = Out(accumulate ? static_cast<Sum>(out[column]) + sum : sum);
}

template <class Sum, class Value, class Out>
void column_sums(int64_t rows, int64_t columns, Value value, Out* out, bool accumulate) {
  if (columns == 0) return;
  launch(column_sums_kernel<Sum, Value, Out>, dim3(blocks_for(columns, kSumColumns)),
         dim3(kSumColumns, kSumRows), rows, columns, value, out, accumulate);
}

}  // namespace lockstep::LOCKSTEP_GPU

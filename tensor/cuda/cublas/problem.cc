#include "lockstep/tensor/cuda/cublas/problem.h"

#include <limits>

namespace lockstep::cuda {
namespace {

/// A row-major [rows, cols] matrix as the library reads it.
LtMatrix read_by_columns(int64_t rows, int64_t cols, bool transpose, bool batched) {
  return {.rows = cols, .cols = rows, .stride = batched ? rows * cols : 0, .transpose = transpose};
}

}  // namespace

LtProduct lt_product(const MatmulProblem& p) {
  return {.left = read_by_columns(p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n,
                                  p.transpose_b, p.batched_b),
          .right = read_by_columns(p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k,
                                   p.transpose_a, p.batched_a),
          .result = read_by_columns(p.m, p.n, false, true)};
}

bool lt_takes(const MatmulProblem& p, DType operands, DType out, DType bias) {
  const bool narrow = operands == DType::kBF16;
  const auto fits = [&](DType dtype) {
    return dtype == operands || (narrow && dtype == DType::kF32);
  };
  return is_computable(operands) && fits(out) && fits(bias) && p.k > 0 && p.m > 0 && p.n > 0 &&
         p.batch > 0 && p.batch <= std::numeric_limits<int32_t>::max();
}

int64_t alignment_of(uintptr_t address) {
  int64_t alignment = 1;
  while (alignment < 256 && address % (2 * static_cast<uintptr_t>(alignment)) == 0) alignment *= 2;
  return alignment;
}

bool lt_sums(DType out, DType sums, int64_t align_sums) { return sums == out && align_sums >= 16; }

LtKey lt_key(const LtCall& c) {
  const MatmulProblem& p = c.problem;
  const int64_t flags = p.transpose_a | p.transpose_b << 1 | p.batched_a << 2 | p.batched_b << 3 |
                        c.accumulate << 4 | c.tf32 << 5 | static_cast<int64_t>(c.epilogue) << 6;
  return {p.batch,
          p.m,
          p.n,
          p.k,
          flags,
          static_cast<int64_t>(c.operands),
          static_cast<int64_t>(c.out),
          c.align_a,
          c.align_b,
          c.align_out};
}

}  // namespace lockstep::cuda

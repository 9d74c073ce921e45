// A matrix product as cuBLASLt wants it. The library's matrices lie column by column, ours row by
// row, and a row-major matrix read column by column is its transpose; so the library is asked for
// out^T = op(b)^T op(a)^T, with the operands in the other order and nothing copied. Pure functions,
// tested without a GPU.
#pragma once

#include "lockstep/tensor/cuda/problem_cache.h"
#include "lockstep/tensor/ops/matmul.h"

#include <cstdint>

namespace lockstep::cuda {

/// A batch of column-major matrices: element (r, c) of matrix i is at i * stride + c * rows + r.
struct LtMatrix {
  int64_t rows = 0, cols = 0;
  int64_t stride = 0;      // 0: one matrix serves the whole batch
  bool transpose = false;  // the product uses its transpose

  bool operator==(const LtMatrix&) const = default;
};

/// result = op(left) op(right), column-major.
struct LtProduct {
  LtMatrix left;   // our b
  LtMatrix right;  // our a
  LtMatrix result;
};

LtProduct lt_product(const MatmulProblem& problem);

/// Whether cuBLASLt is asked at all; what it is asked and refuses goes to our own kernel too.
/// `bias` is the bias's dtype, or `out` without one.
bool lt_takes(const MatmulProblem& problem, DType operands, DType out, DType bias);

/// A power of two, at most 256, that divides `address`: what cuBLASLt's choice may count on.
int64_t alignment_of(uintptr_t address);

/// What is done with the product, or with an operand, while it is at hand.
enum class LtEpilogue {
  kNone,
  kBias,         // a bias for each of our columns
  kSumsOfRight,  // written: the sums over k of the library's right operand, our a; one for each row
};

struct LtCall {
  MatmulProblem problem;
  DType operands = DType::kF32, out = DType::kF32;
  LtEpilogue epilogue = LtEpilogue::kNone;
  bool accumulate = false, tf32 = false;
  int64_t align_a = 256, align_b = 256, align_out = 256;
};

/// Whether the epilogue can write these sums: they have the product's type, and one multiple of 16
/// bytes as their address.
bool lt_sums(DType out, DType sums, int64_t align_sums);

using LtKey = ProblemKey<10>;
/// Different for calls that need different descriptors or another choice of kernel.
LtKey lt_key(const LtCall& call);

}  // namespace lockstep::cuda

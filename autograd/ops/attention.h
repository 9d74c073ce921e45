// Scaled dot-product attention.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/ops/attention.h"
#include "lockstep/tensor/random.h"

#include <cstdint>

namespace lockstep {

/// softmax(q k^T * scale) v in each head, as one op: q [B, H, Sq, D], k and v [B, H, Sk, D], with
/// heads 0; or q [B, Sq, H * D], k and v [B, Sk, H * D] in `heads` heads, read where they lie. The
/// result has q's shape. A query that sees no key (all are padding) gives zeros and has no
/// gradient.
///
/// Backward keeps q, k, v, the result and the log-sum-exp of each row, [B, H, Sq]: probabilities
/// are computed again block by block, and what dropout dropped is drawn again, from `rng`'s numbers
/// of forward. f32, f64, bf16; sums in f32 for bf16. ArgumentError for shapes that do not fit, and
/// for dropout without `rng`.
Variable scaled_dot_product_attention(const Variable& q, const Variable& k, const Variable& v,
                                      int64_t heads = 0, const AttentionOptions& options = {},
                                      Generator* rng = nullptr);

/// The same for queries, keys and values that one projection made, side by side in qkv [B, S, 3 *
/// H * D]: neither they nor their gradients are copied. The result is [B, S, H * D].
Variable packed_self_attention(const Variable& qkv, int64_t heads,
                               const AttentionOptions& options = {}, Generator* rng = nullptr);

}  // namespace lockstep

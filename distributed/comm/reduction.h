// Element-wise reductions of raw host memory by dtype and ReduceOp.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::comm {

/// out[i] = inputs[0][i] op inputs[1][i] op ..., from left to right, for i in [0, count). bf16 and
/// f16 are accumulated in f32 and rounded once. `out` may be one of the inputs.
void reduce_in_order(std::byte* out, const std::vector<const std::byte*>& inputs, int64_t count,
                     DType dtype, ReduceOp op);

/// out[i] = a[i] op b[i]; `out` may be a or b. The form in which Gloo wants it.
using PairReduction = void (*)(void* out, const void* a, const void* b, size_t count);
PairReduction pair_reduction(DType dtype, ReduceOp op);

}  // namespace lockstep::comm

// Arena: many tensors of one dtype in one block of memory. Parameters, their gradients and the
// optimizer's state use one layout, so that a pass over memory can treat a run of neighbours as one
// long array, and a collective can send one.
#pragma once

#include "lockstep/tensor/tensor.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// Every slice begins at a multiple of this many bytes: a cache line for vector loads, and what
/// NCCL and the GPU's widest accesses want.
inline constexpr int64_t kArenaAlignment = 256;

struct ArenaLayout {
  std::vector<int64_t> offsets;  // of each slice, in elements
  int64_t numel = 0;  // of the whole arena, padding included; a multiple of the alignment
};

/// Where slices of `numels` elements lie, in the given order, each aligned to kArenaAlignment
/// bytes. The padding after a slice belongs to no one; whoever makes the arena zeroes it
/// (Tensor::zeros), so that sums and norms over the whole block are right. Throws ArgumentError for
/// a negative count or a total that overflows.
ArenaLayout arena_layout(std::span<const int64_t> numels, DType dtype);

/// The number of elements from the start of a slice of `numel` elements to the start of the next
/// one.
int64_t arena_stride(int64_t numel, DType dtype);

/// A view of shape.numel() elements of the one-dimensional `arena`, from `offset` (elements) on.
Tensor arena_view(const Tensor& arena, int64_t offset, const Shape& shape);

}  // namespace lockstep

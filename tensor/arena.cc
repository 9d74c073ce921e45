#include "lockstep/tensor/arena.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 58;  // so that bytes of any dtype fit in an int64_t

}  // namespace

int64_t arena_stride(int64_t numel, DType dtype) {
  const int64_t unit = kArenaAlignment / static_cast<int64_t>(size_of(dtype));
  return (numel + unit - 1) / unit * unit;
}

ArenaLayout arena_layout(std::span<const int64_t> numels, DType dtype) {
  ArenaLayout layout;
  layout.offsets.reserve(numels.size());
  for (const int64_t numel : numels) {
    check(numel >= 0, "arena_layout: slice ", layout.offsets.size(), " has ", numel, " elements");
    check(numel <= kMaxElements - layout.numel, "arena_layout: the total overflows at slice ",
          layout.offsets.size(), " of ", numel, " elements");
    layout.offsets.push_back(layout.numel);
    layout.numel += arena_stride(numel, dtype);
  }
  return layout;
}

Tensor arena_view(const Tensor& arena, int64_t offset, const Shape& shape) {
  check(arena.ndim() == 1, "arena_view: wanted an arena of one dimension, got ", arena.shape());
  check(offset >= 0 && shape.numel() <= arena.numel() && offset <= arena.numel() - shape.numel(),
        "arena_view: ", shape, " at element ", offset, " does not fit in ", arena.numel(),
        " elements");
  return arena.slice(offset, offset + shape.numel()).reshape(shape);
}

}  // namespace lockstep

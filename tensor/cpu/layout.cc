#include "lockstep/tensor/ops/layout.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/strided.h"

#include <cstring>

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;

constexpr int64_t kTile =
    32;  // a side of the square in which rows and columns change places: both fit the L1 cache

template <class T>
void put(T& to, T value, bool accumulate) {
  if constexpr (is_floating(dtype_of<T>)) {
    using C = compute_t<T>;
    to = accumulate ? T(static_cast<C>(to) + static_cast<C>(value)) : value;
  } else {
    to = value;
  }
}

template <class T>
void put_row(T* to, const T* from, int64_t count, bool accumulate) {
  if (!accumulate) {
    if (count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else {
    for (int64_t i = 0; i < count; ++i) put(to[i], from[i], true);
  }
}

void check_accumulate(const Dest& to, const char* op) {
  check(!to.accumulate || is_floating(to.out.dtype()), op, ": cannot add to ",
        name_of(to.out.dtype()));
}

void copy_block(const Tensor& from, const RowBlock& block, const Dest& to) {
  check_accumulate(to, "copy_block");
  dispatch_any(from.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor target = to.out;
    const T* x = from.data<T>() + block.from_offset;
    T* y = target.mutable_data<T>() + block.to_offset;
    cpu::StridedLoop<2> loop;
    loop.push(block.rows, {block.from_pitch, block.to_pitch});
    loop.push(block.width, {1, 1});
    cpu::for_each_row(loop,
                      [=, add = to.accumulate](const std::array<int64_t, 2>& at, int64_t count) {
                        put_row(y + at[1], x + at[0], count, add);
                      });
  });
}

/// y's innermost dimension lies at `step` in x, and x's innermost at `y_step` in y: a transpose of
/// many planes.
template <class T>
void transpose_planes(const T* x, T* y, bool accumulate, const cpu::StridedLoop<2>& outer,
                      int64_t rows, int64_t y_step, int64_t columns, int64_t step) {
  const int64_t row_tiles = (rows + kTile - 1) / kTile;
  const int64_t column_tiles = (columns + kTile - 1) / kTile;
  const int64_t tiles = outer.numel() * row_tiles * column_tiles;
  parallel_for(tiles, kGrain / (kTile * kTile), [&](int64_t begin, int64_t end) {
    cpu::Walker<2> plane(outer, outer.ndim);
    for (int64_t tile = begin; tile < end; ++tile) {
      plane.seek(tile / (row_tiles * column_tiles));
      const int64_t first_row = tile / column_tiles % row_tiles * kTile;
      const int64_t first_column = tile % column_tiles * kTile;
      const int64_t last_row = std::min(first_row + kTile, rows);
      const int64_t last_column = std::min(first_column + kTile, columns);
      const T* from = x + plane.offset[0];
      T* to = y + plane.offset[1];
      for (int64_t r = first_row; r < last_row; ++r) {
        for (int64_t c = first_column; c < last_column; ++c)
          put(to[r * y_step + c], from[c * step + r], accumulate);
      }
    }
  });
}

void permute(const Tensor& x, std::span<const int> dims, const Dest& dest) {
  check_accumulate(dest, "permute");
  if (x.numel() == 0) return;
  Tensor y = dest.out;
  std::array<int64_t, Shape::kMaxDims> x_stride{};
  for (int i = 0; i < x.ndim(); ++i)
    x_stride[static_cast<size_t>(i)] = x.shape().numel(i + 1, x.ndim());
  cpu::StridedLoop<2> loop;
  for (int i = 0; i < y.ndim(); ++i) {
    const int from = dims[static_cast<size_t>(i)];
    if (y.dim(i) != 1) {
      loop.push(y.dim(i), {x_stride[static_cast<size_t>(from)], y.shape().numel(i + 1, y.ndim())});
    }
  }
  if (loop.ndim == 0) loop.push(1, {1, 1});
  dispatch_any(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    if (loop.inner_stride(0) == 1) {
      cpu::for_each_row(
          loop, [=, add = dest.accumulate](const std::array<int64_t, 2>& at, int64_t count) {
            put_row(out + at[1], in + at[0], count, add);
          });
      return;
    }
    cpu::StridedLoop<2> outer;
    int64_t rows = 1;
    int64_t y_step = 0;
    for (size_t i = 0; i + 1 < static_cast<size_t>(loop.ndim); ++i) {
      if (loop.stride[0][i] == 1) {
        rows = loop.extent[i];
        y_step = loop.stride[1][i];
      } else {
        outer.push(loop.extent[i], {loop.stride[0][i], loop.stride[1][i]});
      }
    }
    transpose_planes(in, out, dest.accumulate, outer, rows, y_step, loop.inner(),
                     loop.inner_stride(0));
  });
}

}  // namespace

const LayoutKernels kCpuLayout{.copy_block = copy_block, .permute = permute};

}  // namespace lockstep

#include "lockstep/tensor/ops/layout.h"

#include "lockstep/tensor/cuda/strided.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

constexpr int kTile = 32;     // a side of the square in which rows and columns change places
constexpr int kTileRows = 8;  // of it that a block moves at once
constexpr int64_t kThin = 8;  // a transpose with a shorter side than this leaves a tile empty

/// Calls fn(T{}) with the element type where elements are added to others, and with an integer of
/// its size where they are only moved, so that every bit of them is.
template <class Fn>
void dispatch_move(const Dest& to, const char* op, Fn&& fn) {
  const DType dtype = to.out.dtype();
  check(!to.accumulate || is_floating(dtype), op, ": cannot add to ", name_of(dtype));
  if (to.accumulate) {
    return dispatch_any(dtype, [&](auto zero) {
      if constexpr (is_floating(dtype_of<decltype(zero)>)) fn(zero);
    });
  }
  dispatch_bits(dtype, fn);
}

void copy_block(const Tensor& from, const RowBlock& block, const Dest& to) {
  dispatch_move(to, "copy_block", [&](auto zero) {
    using T = decltype(zero);
    Tensor target = to.out;
    StridedLoop<2> loop;
    if (block.rows != 1) loop.push(block.rows, {block.to_pitch, block.from_pitch});
    loop.push(block.width, {1, 1});
    map_strided(loop, Unchanged{}, reinterpret_cast<T*>(target.mutable_raw()) + block.to_offset,
                to.accumulate, reinterpret_cast<const T*>(from.raw()) + block.from_offset);
  });
}

/// Many planes, rows x columns in y, where columns lie one after the other in y and rows in x.
struct Planes {
  StridedLoop<2> outer;  // of y and of x
  int64_t rows, columns;
  int64_t y_step;  // from one row to the next in y
  int64_t x_step;  // from one column to the next in x
  int64_t row_tiles, column_tiles;
};

/// T holds a number, or its bits.
template <class T>
struct BitsOf {
  using type = T;
};
template <>
struct BitsOf<bf16> {
  using type = uint16_t;
};
template <>
struct BitsOf<f16> {
  using type = uint16_t;
};

template <class T>
__global__ void transpose_kernel(Planes p, const T* x, T* y, bool accumulate) {
  // Shared memory is of plain types; one column more, so that a column lies in different banks.
  using Bits = typename BitsOf<T>::type;
  LOCKSTEP_SHARED(Bits, tile, [kTile][kTile + 1]);
  const int64_t in_plane = p.row_tiles * p.column_tiles;
  const int64_t plane = divide(blockIdx.x, in_plane);
  const int64_t place = blockIdx.x - plane * in_plane;
  const int64_t first_row = divide(place, p.column_tiles) * kTile;
  const int64_t first_column = place % p.column_tiles * kTile;
  int64_t at[2] = {};
  p.outer.seek(plane, at);
  const int64_t row_to_read = first_row + threadIdx.x;
  for (int c = threadIdx.y; c < kTile && row_to_read < p.rows; c += kTileRows) {
    if (first_column + c >= p.columns) break;
    tile[c][threadIdx.x] =
        std::bit_cast<Bits>(x[at[1] + (first_column + c) * p.x_step + row_to_read]);
  }
  __syncthreads();
  const int64_t column = first_column + threadIdx.x;
  for (int r = threadIdx.y; r < kTile && column < p.columns; r += kTileRows) {
    if (first_row + r >= p.rows) break;
    T& to = y[at[0] + (first_row + r) * p.y_step + column];
    const T value = std::bit_cast<T>(tile[threadIdx.x][r]);
    using C = compute_t<T>;
    to = accumulate ? T(static_cast<C>(to) + static_cast<C>(value)) : value;
  }
}

/// y's dimensions outermost first; operands are y and x.
StridedLoop<2> permuted_loop(const Tensor& x, std::span<const int> dims) {
  StridedLoop<2> loop;
  int64_t y_stride = x.numel();
  for (const int dim : dims) {
    if (x.dim(dim) == 1) continue;
    y_stride /= x.dim(dim);
    loop.push(x.dim(dim), {y_stride, x.shape().numel(dim + 1, x.ndim())});
  }
  if (loop.ndim == 0) loop.push(1, {1, 1});
  return loop;
}

void permute(const Tensor& x, std::span<const int> dims, const Dest& dest) {
  if (x.numel() == 0) return;
  const StridedLoop<2> loop = permuted_loop(x, dims);
  const int last = loop.ndim - 1;
  Planes planes{{}, 1, loop.extent[last], 0, loop.stride[1][last], 0, 0};
  for (int d = 0; d < last; ++d) {
    if (loop.stride[1][d] == 1) {
      planes.rows = loop.extent[d];
      planes.y_step = loop.stride[0][d];
    } else {
      planes.outer.push(loop.extent[d], {loop.stride[0][d], loop.stride[1][d]});
    }
  }
  planes.row_tiles = (planes.rows + kTile - 1) / kTile;
  planes.column_tiles = (planes.columns + kTile - 1) / kTile;
  const int64_t tiles = planes.outer.numel() * planes.row_tiles * planes.column_tiles;
  const bool thin = planes.rows < kThin || planes.columns < kThin || tiles > 0x7fffffff;
  dispatch_move(dest, "permute", [&](auto zero) {
    using T = decltype(zero);
    Tensor target = dest.out;
    T* to = reinterpret_cast<T*>(target.mutable_raw());
    const T* from = reinterpret_cast<const T*>(x.raw());
    if (thin) return map_strided(loop, Unchanged{}, to, dest.accumulate, from);
    launch(transpose_kernel<T>, dim3(static_cast<unsigned>(tiles)), dim3(kTile, kTileRows), planes,
           from, to, dest.accumulate);
  });
}

}  // namespace

const LayoutKernels kLayout{.copy_block = copy_block, .permute = permute};

}  // namespace lockstep::LOCKSTEP_GPU

// Loops over broadcast operands: strides, merging of dimensions, and the walk over the outer ones.
#pragma once

#include "lockstep/tensor/cpu/parallel.h"
#include "lockstep/tensor/shape.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace lockstep::cpu {

/// A loop nest over kN operands of one shape. A broadcast dimension has stride 0 in that operand.
/// Dimensions that can be walked as one are merged, so [N, H, W, C] with [C] is two loops and equal
/// shapes are one; the innermost stride of an operand built by `broadcast_loop` is 0 or 1.
template <int kN>
struct StridedLoop {
  int ndim = 0;
  std::array<int64_t, Shape::kMaxDims> extent{};
  std::array<std::array<int64_t, Shape::kMaxDims>, kN> stride{};

  /// Adds a dimension inside the others, merging it with the last one where all strides allow.
  void push(int64_t size, const std::array<int64_t, kN>& strides) {
    const auto fits = [&](size_t k) {
      return stride[k][static_cast<size_t>(ndim - 1)] == strides[k] * size;
    };
    bool merge = ndim > 0;
    for (size_t k = 0; merge && k < kN; ++k) merge = fits(k);
    const auto at = static_cast<size_t>(merge ? ndim - 1 : ndim++);
    extent[at] = merge ? extent[at] * size : size;
    for (size_t k = 0; k < kN; ++k) stride[k][at] = strides[k];
  }
  int64_t inner() const { return extent[static_cast<size_t>(ndim - 1)]; }
  int64_t inner_stride(int k) const {
    return stride[static_cast<size_t>(k)][static_cast<size_t>(ndim - 1)];
  }
  int64_t numel() const {
    int64_t product = 1;
    for (int i = 0; i < ndim; ++i) product *= extent[static_cast<size_t>(i)];
    return product;
  }
};

/// The loop over `full`, to which every operand's shape can be broadcast. At least one dimension.
template <int kN>
StridedLoop<kN> broadcast_loop(const Shape& full, const std::array<Shape, kN>& operands) {
  std::array<std::array<int64_t, Shape::kMaxDims>, kN> strides{};
  for (size_t k = 0; k < kN; ++k) {
    int64_t step = 1;
    for (int i = operands[k].ndim() - 1; i >= 0; --i) {
      const int64_t size = operands[k][i];
      strides[k][static_cast<size_t>(i + full.ndim() - operands[k].ndim())] = size == 1 ? 0 : step;
      step *= size;
    }
  }
  StridedLoop<kN> loop;
  std::array<int64_t, kN> at{};
  for (int i = 0; i < full.ndim(); ++i) {
    if (full[i] == 1) continue;
    for (size_t k = 0; k < kN; ++k) at[k] = strides[k][static_cast<size_t>(i)];
    loop.push(full[i], at);
  }
  if (loop.ndim == 0) {
    at.fill(1);
    loop.push(1, at);
  }
  return loop;
}

/// The operands' offsets at one position of a loop's outer dimensions.
template <int kN>
class Walker {
 public:
  /// Walks the first `ndim` dimensions of `loop`.
  Walker(const StridedLoop<kN>& loop, int ndim) : loop_(loop), ndim_(ndim) {}

  void seek(int64_t index) {
    offset.fill(0);
    for (int i = ndim_ - 1; i >= 0; --i) {
      const auto d = static_cast<size_t>(i);
      at_[d] = index % loop_.extent[d];
      index /= loop_.extent[d];
      for (size_t k = 0; k < kN; ++k) offset[k] += at_[d] * loop_.stride[k][d];
    }
  }
  void next() {
    for (int i = ndim_ - 1; i >= 0; --i) {
      const auto d = static_cast<size_t>(i);
      for (size_t k = 0; k < kN; ++k) offset[k] += loop_.stride[k][d];
      if (++at_[d] < loop_.extent[d]) return;
      for (size_t k = 0; k < kN; ++k) offset[k] -= at_[d] * loop_.stride[k][d];
      at_[d] = 0;
    }
  }

  std::array<int64_t, kN> offset{};

 private:
  const StridedLoop<kN>& loop_;
  int ndim_;
  std::array<int64_t, Shape::kMaxDims> at_{};
};

/// Calls fn(offsets, count) for runs of the innermost dimension that cover positions [begin, end)
/// of the loop.
template <int kN, class Fn>
void walk_rows(const StridedLoop<kN>& loop, int64_t begin, int64_t end, Fn&& fn) {
  if (begin >= end) return;
  const int64_t inner = loop.inner();
  Walker<kN> row(loop, loop.ndim - 1);
  row.seek(begin / inner);
  int64_t column = begin % inner;
  while (begin < end) {
    const int64_t count = std::min(inner - column, end - begin);
    std::array<int64_t, kN> offset = row.offset;
    for (int k = 0; k < kN; ++k) offset[static_cast<size_t>(k)] += column * loop.inner_stride(k);
    fn(offset, count);
    begin += count;
    column = 0;
    row.next();
  }
}

/// walk_rows over the whole loop on all threads.
template <int kN, class Fn>
void for_each_row(const StridedLoop<kN>& loop, Fn&& fn) {
  parallel_for(loop.numel(), kGrain,
               [&](int64_t begin, int64_t end) { walk_rows(loop, begin, end, fn); });
}

/// Calls fn.template operator()<A, B>() with the two strides, each 0 or 1, as constants, so that
/// inner loops vectorise. Not both are 0: one of the two operands has each dimension.
template <class Fn>
void with_strides(int64_t a, int64_t b, Fn&& fn) {
  if (a == 1 && b == 1) {
    fn.template operator()<1, 1>();
  } else if (a == 1) {
    fn.template operator()<1, 0>();
  } else {
    fn.template operator()<0, 1>();
  }
}

}  // namespace lockstep::cpu

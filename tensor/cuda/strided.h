// Elementwise kernels over operands that lie in memory with strides: broadcast ones, parts of
// tensors, transposes. What is dense becomes a loop of one dimension and costs nothing extra.
// Included by kernel sources alone.
#pragma once

#include "lockstep/tensor/cuda/vector.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>

namespace lockstep::LOCKSTEP_GPU {

/// For numbers that are not negative; 64-bit division costs a GPU several times as much.
__device__ inline int64_t divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

/// For map() and map_strided(): a value as it is, converted where the dtypes differ.
struct Unchanged {
  template <class C>
  __device__ C operator()(C v) const {
    return v;
  }
};

/// Calls fn with an integer of an element's size, for what only moves elements: every bit of them.
template <class Fn>
void dispatch_bits(DType dtype, Fn&& fn) {
  switch (size_of(dtype)) {
    case 8:
      return fn(uint64_t{});
    case 4:
      return fn(uint32_t{});
    case 2:
      return fn(uint16_t{});
    default:
      return fn(uint8_t{});
  }
}

/// A loop nest over kN operands, the innermost dimension last. Dimensions that can be walked as one
/// are merged.
template <int kN>
struct StridedLoop {
  int ndim = 0;
  int64_t extent[Shape::kMaxDims] = {};
  int64_t stride[kN][Shape::kMaxDims] = {};

  /// Adds a dimension inside the others.
  void push(int64_t size, const std::array<int64_t, kN>& strides) {
    bool merge = ndim > 0;
    for (size_t k = 0; merge && k < kN; ++k) merge = stride[k][ndim - 1] == strides[k] * size;
    const int at = merge ? ndim - 1 : ndim++;
    extent[at] = merge ? extent[at] * size : size;
    for (size_t k = 0; k < kN; ++k) stride[k][at] = strides[k];
  }
  int64_t numel() const {
    int64_t product = 1;
    for (int d = 0; d < ndim; ++d) product *= extent[d];
    return product;
  }
  /// offset[k] += where operand k has element i.
  __device__ void seek(int64_t i, int64_t (&offset)[kN]) const {
    for (int d = ndim - 1; d > 0; --d) {
      const int64_t rest = divide(i, extent[d]);
      for (int k = 0; k < kN; ++k) offset[k] += (i - rest * extent[d]) * stride[k][d];
      i = rest;
    }
    for (int k = 0; k < kN; ++k) offset[k] += i * stride[k][0];
  }
};

/// The loop over `full`, to which every operand's shape can be broadcast; a dimension in which an
/// operand is repeated has stride 0 there.
template <int kN>
StridedLoop<kN> broadcast_loop(const Shape& full, const std::array<Shape, kN>& operands) {
  StridedLoop<kN> loop;
  for (int i = 0; i < full.ndim(); ++i) {
    if (full[i] == 1) continue;
    std::array<int64_t, kN> strides{};
    for (size_t k = 0; k < kN; ++k) {
      const Shape& shape = operands[k];
      const int at = i - full.ndim() + shape.ndim();
      if (at >= 0 && shape[at] != 1) strides[k] = shape.numel(at + 1, shape.ndim());
    }
    loop.push(full[i], strides);
  }
  if (loop.ndim == 0) loop.push(1, std::array<int64_t, kN>{});
  return loop;
}

/// y (+)= op(x...): operand 0 of the loop is y, the others are x.
template <class Op, class Out, class... In>
struct StridedMap {
  static constexpr int kN = 1 + sizeof...(In);
  using C = compute_t<Out>;

  StridedLoop<kN> loop;
  Op op;
  Out* y;
  bool accumulate;
  std::tuple<const In*...> x;
  bool repeated[kN];  // along the innermost dimension

  template <int N>
  __device__ void run(int64_t i) const {
    int64_t at[kN] = {};
    loop.seek(i, at);
    read_and_put<N>(at, std::index_sequence_for<In...>{});
  }

 private:
  template <int N, size_t... K>
  __device__ void read_and_put(const int64_t (&at)[kN], std::index_sequence<K...>) const {
    put<N>(y + at[0], read<N>(std::get<K>(x) + at[K + 1], repeated[K + 1])...);
  }
  template <int N, class T>
  static __device__ Pack<T, N> read(const T* from, bool repeat) {
    Pack<T, N> values{};
    if (N == 1 || !repeat) {
      values = load<N>(from);
    } else {
      for (int k = 0; k < N; ++k) values[k] = *from;
    }
    return values;
  }
  template <int N>
  __device__ void put(Out* to, const Pack<In, N>&... v) const {
    Pack<Out, N> result{};
    if (accumulate) result = load<N>(to);
    for (int k = 0; k < N; ++k) {
      const C value = static_cast<C>(op(static_cast<compute_t<In>>(v[k])...));
      result[k] = Out(accumulate ? static_cast<C>(result[k]) + value : value);
    }
    store(to, result);
  }
};

/// Whether an operand of a loop can be read N elements at a time.
template <int N, int kN, class T>
bool in_packs(const StridedLoop<kN>& loop, int operand, const T* memory) {
  const int64_t* stride = loop.stride[operand];
  if (stride[loop.ndim - 1] == 0) return operand != 0;
  bool fits = stride[loop.ndim - 1] == 1 && aligned<N>(memory);
  for (int d = 0; d + 1 < loop.ndim; ++d) fits = fits && stride[d] % N == 0;
  return fits;
}

/// y (+)= op(x...) on every element of the loop, each once, in the types they are computed in. Op
/// is a struct with a __device__ call operator.
template <class Op, class Out, class... In>
void map_strided(const StridedLoop<1 + sizeof...(In)>& loop, const Op& op, Out* y, bool accumulate,
                 const In*... x) {
  constexpr int kPack = kWidth<Out, In...>;
  StridedMap<Op, Out, In...> body{loop, op, y, accumulate, {x...}, {}};
  bool packs =
      (loop.ndim == 1 || loop.extent[loop.ndim - 1] % kPack == 0) && in_packs<kPack>(loop, 0, y);
  int operand = 0;
  ((packs = in_packs<kPack>(loop, ++operand, x) && packs), ...);
  for (int k = 0; k < body.kN; ++k) body.repeated[k] = loop.stride[k][loop.ndim - 1] == 0;
  for_each_pack<kPack>(loop.numel(), packs, body);
}

/// y (+)= op(x...) where all have `count` elements, one after the other.
template <class Op, class Out, class... In>
void map(int64_t count, const Op& op, Out* y, bool accumulate, const In*... x) {
  StridedLoop<1 + sizeof...(In)> loop;
  std::array<int64_t, 1 + sizeof...(In)> dense;
  dense.fill(1);
  loop.push(count, dense);
  map_strided(loop, op, y, accumulate, x...);
}

}  // namespace lockstep::LOCKSTEP_GPU

// Reductions: many terms become one value, for each of many outputs, in an order that depends on
// these two numbers alone. Long ones are cut into pieces, so that they fill the GPU; a second pass
// adds up the pieces. Included by kernel sources alone.
//
// What is reduced is a Fold:
//   Fold::Value       made of whole 4-byte words; Value::none() to start with, a.merge(b)
//   lane(output, first, step, end)
//                     the terms first, first + step, ... below end of one output, merged
//   finish(output, value)
//                     called by one thread for each output
#pragma once

#include "lockstep/tensor/cuda/vector.h"
#include "lockstep/tensor/tensor.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace lockstep::LOCKSTEP_GPU {

/// A value to add up in f64.
struct Sum {
  double total;
  static __device__ Sum none() { return {0}; }
  __device__ void merge(const Sum& other) { total += other.total; }
};

/// What lies side by side in memory, and therefore goes to neighbouring threads.
enum class Neighbours { kTerms, kOutputs };

template <class V>
__device__ V shuffle_xor(const V& value, int bits) {
  static_assert(sizeof(V) % sizeof(uint32_t) == 0);
  uint32_t words[sizeof(V) / sizeof(uint32_t)];
  memcpy(words, &value, sizeof(V));
  for (uint32_t& word : words) word = __shfl_xor_sync(0xffffffffu, word, bits);
  V other;
  memcpy(&other, words, sizeof(V));
  return other;
}

/// What the blocks make of their piece, blockIdx.y, of some outputs; with `partial` null that is
/// all of it.
template <class Fold, Neighbours kNeighbours>
__global__ void fold_kernel(int64_t outputs, int64_t terms, Fold fold,
                            typename Fold::Value* partial) {
  using Value = typename Fold::Value;
  constexpr bool kRows = kNeighbours == Neighbours::kTerms;
  const int lanes = kRows ? blockDim.x : blockDim.y;
  const int lane = kRows ? threadIdx.x : threadIdx.y;
  const int64_t output = kRows ? int64_t{blockIdx.x} * blockDim.y + threadIdx.y
                               : int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t begin = terms * blockIdx.y / gridDim.y;
  const int64_t end = terms * (int64_t{blockIdx.y} + 1) / gridDim.y;
  Value value = output < outputs ? fold.lane(output, begin + lane, lanes, end) : Value::none();
  if constexpr (kRows) {  // lanes: one warp of several in a block, or all of the block
    LOCKSTEP_SHARED(Value, of_warp, [kBlock / 32]);
    for (int bits = 16; bits > 0; bits /= 2) value.merge(shuffle_xor(value, bits));
    if (lanes > 32) {
      if (lane % 32 == 0) of_warp[lane / 32] = value;
      __syncthreads();
      for (int w = 1; lane == 0 && w < lanes / 32; ++w) value.merge(of_warp[w]);
    }
  } else {
    LOCKSTEP_SHARED(Value, of_lane, [kBlock]);
    const int at = threadIdx.y * blockDim.x + threadIdx.x;
    of_lane[at] = value;
    for (int half = lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane >= half) continue;
      value.merge(of_lane[at + half * blockDim.x]);
      of_lane[at] = value;
    }
  }
  if (lane != 0 || output >= outputs) return;
  if (partial == nullptr) {
    fold.finish(output, value);
  } else {
    partial[output * gridDim.y + blockIdx.y] = value;
  }
}

/// The second pass: the terms are the pieces of the first.
template <class Fold>
struct FoldPieces {
  using Value = typename Fold::Value;
  Fold fold;
  const Value* partial;
  int64_t pieces;
  __device__ Value lane(int64_t output, int64_t first, int64_t step, int64_t end) const {
    Value value = Value::none();
    for (int64_t p = first; p < end; p += step) value.merge(partial[output * pieces + p]);
    return value;
  }
  __device__ void finish(int64_t output, const Value& value) const { fold.finish(output, value); }
};

/// How threads share out a reduction.
struct FoldPlan {
  unsigned lanes;    // threads of a block that share an output
  unsigned outputs;  // of a block
  unsigned pieces;   // into which terms are cut
  bool rows;         // lanes are neighbours
};

inline FoldPlan plan_fold(int64_t outputs, int64_t terms, Neighbours neighbours) {
  constexpr int64_t kBlocks = 1024;    // enough for the largest GPU
  constexpr int64_t kTermsOfLane = 4;  // for less a piece is not worth it
  constexpr int64_t kShort = 16;       // terms that one thread adds up alone
  const auto power_of_two = [](int64_t n) { return std::bit_ceil(static_cast<uint64_t>(n)); };
  const bool rows = neighbours == Neighbours::kTerms && terms > kShort;
  int64_t lanes = 0, together = 0;
  if (rows) {
    lanes = terms > 512 ? kBlock : 32;
    together = kBlock / lanes;
  } else {
    // A warp of outputs by eight lanes; with fewer outputs more lanes, with fewer terms less.
    const int64_t at_least = neighbours == Neighbours::kTerms ? 1 : std::min<int64_t>(terms, 8);
    const int64_t few = power_of_two(std::max<int64_t>(at_least, 1));
    together = std::min<int64_t>(kBlock / few, power_of_two(outputs));
    lanes = std::min<int64_t>(kBlock / together, power_of_two(std::max<int64_t>(terms, 1)));
  }
  const int64_t blocks = (outputs + together - 1) / together;
  const int64_t pieces = std::min(kBlocks / blocks, terms / (lanes * kTermsOfLane));
  return {static_cast<unsigned>(lanes), static_cast<unsigned>(together),
          static_cast<unsigned>(std::max<int64_t>(pieces, 1)), rows};
}

template <class Fold>
void launch_fold(const FoldPlan& plan, int64_t outputs, int64_t terms, const Fold& fold,
                 typename Fold::Value* partial) {
  const dim3 grid(blocks_for(outputs, plan.outputs), plan.pieces);
  if (plan.rows) {
    launch(fold_kernel<Fold, Neighbours::kTerms>, grid, dim3(plan.lanes, plan.outputs), outputs,
           terms, fold, partial);
  } else {
    launch(fold_kernel<Fold, Neighbours::kOutputs>, grid, dim3(plan.outputs, plan.lanes), outputs,
           terms, fold, partial);
  }
}

/// Reduces `terms` terms for each of `outputs` outputs. Without terms an output is Value::none().
/// `device` is where the memory of the pieces comes from.
template <class Fold>
void reduce(int64_t outputs, int64_t terms, Neighbours neighbours, const Fold& fold,
            Device device) {
  using Value = typename Fold::Value;
  if (outputs == 0) return;
  const FoldPlan plan = plan_fold(outputs, terms, neighbours);
  if (plan.pieces == 1) return launch_fold<Fold>(plan, outputs, terms, fold, nullptr);
  const int64_t pieces = plan.pieces;
  Tensor memory = Tensor::empty({outputs * pieces * int64_t{sizeof(Value)}}, DType::kU8, device);
  Value* partial = reinterpret_cast<Value*>(memory.mutable_raw());
  launch_fold(plan, outputs, terms, fold, partial);
  FoldPlan second = plan_fold(outputs, pieces, Neighbours::kTerms);
  second.pieces = 1;
  launch_fold<FoldPieces<Fold>>(second, outputs, pieces, {fold, partial, pieces}, nullptr);
}

/// One output of all elements of some memory: body.run<N>(i, value) merges the N elements from i,
/// one after the other, body.finish(value) has the result.
template <int N, class Body>
struct FlatFold {
  using Value = typename Body::Value;
  Body body;
  int64_t count;
  bool packs;
  __device__ Value lane(int64_t, int64_t first, int64_t step, int64_t end) const {
    Value value = Value::none();
    for (int64_t p = first; p < end; p += step) {
      const int64_t i = p * N;
      if (packs && i + N <= count) {
        body.template run<N>(i, value);
      } else {  // the same elements in the same order
        for (int k = 0; k < N && i + k < count; ++k) body.template run<1>(i + k, value);
      }
    }
    return value;
  }
  __device__ void finish(int64_t, const Value& value) const { body.finish(value); }
};

template <int N, class Body>
void reduce_flat(int64_t count, bool packs, const Body& body, Device device) {
  reduce(1, (count + N - 1) / N, Neighbours::kTerms, FlatFold<N, Body>{body, count, packs}, device);
}

}  // namespace lockstep::LOCKSTEP_GPU

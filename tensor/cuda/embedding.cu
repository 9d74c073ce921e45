// Rows of a table, and the sums of their gradients. An id that is out of range reads NaN, and its
// gradient is left out (see index.cu).
//
// Backward: a block owns 16 rows of the table and 256 columns. It looks through the ids, 256 at a
// time, lists those that are its own in their order, and adds their gradients in shared memory. So
// every row is written once, nothing is sorted or atomic, and the order of a sum is that of the
// ids. The ids are read V / 16 * D / 256 times: for V = 30522, D = 768 and 4096 ids 190 MB from the
// second-level cache, some 40 us, beside 94 MB of f32 sums that must be written. A row's own ids
// are added one after the other, four loads at a time: 4096 of one row take about 0.6 ms. Where
// that is the rule, because there are few rows (types of segments, positions), blocks share the
// ids, and a second launch adds their sums up.
#include "lockstep/tensor/cuda/embedding.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/rows.h"
#include "lockstep/tensor/dtype.h"

#include <algorithm>
#include <limits>

namespace lockstep::LOCKSTEP_GPU {
namespace {

constexpr int kRows = 16;  // of the table, in a block

template <class T>
__global__ void embedding_kernel(const T* weight, int64_t rows, int64_t width, const int64_t* ids,
                                 int64_t count, T* y) {
  using C = compute_t<T>;
  using Team = Team<1>;
  const int64_t i = Team::row();
  if (i >= count) return;
  T* to = y + i * width;
  if (ids[i] >= 0 && ids[i] < rows) {
    map_row<Team>(
        width, false, to, [](int64_t, C v) { return v; }, weight + ids[i] * width);
  } else {
    map_row<Team>(width, false, to, [](int64_t) { return std::numeric_limits<C>::quiet_NaN(); });
  }
}

/// Chunk blockIdx.z of the ids: its sums go to row v of chunk blockIdx.z in `out`.
template <class T, class Out>
__global__ void embedding_backward_kernel(const T* grad_y, const int64_t* ids, int64_t count,
                                          int64_t left_out, int64_t rows, int64_t width, Out* out,
                                          bool accumulate) {
  using C = compute_t<T>;
  LOCKSTEP_SHARED(C, sums, [kRows][kBlock]);           // a column belongs to one thread
  LOCKSTEP_SHARED(unsigned, votes, [2][kBlockWarps]);  // taken in turn: one barrier less
  LOCKSTEP_SHARED(int, found, [kBlock]);               // position in the window and row of 16
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / kWarp;
  const int64_t first = int64_t{blockIdx.x} * kRows;
  const int64_t column = int64_t{blockIdx.y} * kBlock + thread;
  const int64_t begin = count * blockIdx.z / gridDim.z;
  const int64_t end = count * (blockIdx.z + 1) / gridDim.z;
  for (int r = 0; r < kRows; ++r) sums[r][thread] = C(0);
  int turn = 0;
  for (int64_t window = begin; window < end; window += kBlock, turn ^= 1) {
    const int64_t id = window + thread < end ? ids[window + thread] : -1;
    const bool mine = id >= first && id < first + kRows && id < rows && id != left_out;
    const unsigned vote = __ballot_sync(kFullWarp, mine);
    if (thread % kWarp == 0) votes[turn][warp] = vote;
    __syncthreads();
    int before = __popc(vote & ((1u << thread % kWarp) - 1));
    int all = 0;
    for (int w = 0; w < kBlockWarps; ++w) {
      if (w < warp) before += __popc(votes[turn][w]);
      all += __popc(votes[turn][w]);
    }
    if (all == 0) continue;
    if (mine) found[before] = thread * kRows + static_cast<int>(id - first);
    __syncthreads();
    constexpr int kAtOnce = 4;
    for (int i = 0; i < all && column < width; i += kAtOnce) {
      C values[kAtOnce];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int64_t at = window + (i + j < all ? found[i + j] / kRows : 0);
        values[j] = static_cast<C>(grad_y[at * width + column]);
      }
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        if (i + j < all) sums[found[i + j] % kRows][thread] += values[j];
      }
    }
    __syncthreads();
  }
  for (int r = 0; r < kRows && first + r < rows && column < width; ++r) {
    Out& to = out[(blockIdx.z * rows + first + r) * width + column];
    to = Out(accumulate ? static_cast<C>(to) + sums[r][thread] : sums[r][thread]);
  }
}

template <class T>
struct AddChunks {
  using C = compute_t<T>;
  const C* sums;
  int64_t chunks, count;
  T* out;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    C sum = accumulate ? static_cast<C>(out[i]) : C(0);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) sum += sums[chunk * count + i];
    out[i] = T(sum);
  }
};

}  // namespace

void embedding(const Tensor& weight, const Tensor& ids, Tensor& y) {
  if (y.numel() == 0) return;
  dispatch_floating(weight.dtype(), "embedding", [&](auto zero) {
    using T = decltype(zero);
    launch(embedding_kernel<T>, Team<1>::grid(ids.numel()), dim3(kBlock), weight.data<T>(),
           weight.dim(0), weight.dim(1), ids.data<int64_t>(), ids.numel(), y.mutable_data<T>());
  });
}

void embedding_backward(const Tensor& grad_y, const Tensor& ids, int64_t padding_idx,
                        const Dest& grad_weight) {
  Tensor target = grad_weight.out;
  const int64_t rows = target.dim(0), width = target.dim(1), count = ids.numel();
  if (target.numel() == 0) return;
  // At least 64 ids for a chunk, and for all of them together at most 4096 rows of sums.
  const int64_t chunks = std::clamp<int64_t>(4096 / rows, 1, std::max<int64_t>(count / 64, 1));
  const dim3 grid(blocks_for(rows, kRows), blocks_for(width, kBlock),
                  static_cast<unsigned>(chunks));
  dispatch_floating(grad_y.dtype(), "embedding_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* grads = grad_y.data<T>();
    const int64_t* id = ids.data<int64_t>();
    T* out = target.mutable_data<T>();
    if (chunks == 1) {
      launch(embedding_backward_kernel<T, T>, grid, dim3(kBlock), grads, id, count, padding_idx,
             rows, width, out, grad_weight.accumulate);
      return;
    }
    Tensor sums = Tensor::empty({chunks, rows, width}, dtype_of<C>, target.device());
    launch(embedding_backward_kernel<T, C>, grid, dim3(kBlock), grads, id, count, padding_idx, rows,
           width, sums.mutable_data<C>(), false);
    for_each(rows * width,
             AddChunks<T>{sums.data<C>(), chunks, rows * width, out, grad_weight.accumulate});
  });
}

}  // namespace lockstep::LOCKSTEP_GPU

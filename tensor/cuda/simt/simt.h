// A kernel's own source on the CPU: every CUDA thread of a block becomes a fiber of one host
// thread, blocks run one after the other. What it adds over a plain loop is what a GPU would punish
// in silence: shared memory is poisoned before each block, a barrier that some threads never reach
// or that threads reach at different lines is an error, wide accesses must be aligned, and the
// order in which threads run can be changed, which a missing barrier does not survive.
//
// Small shapes only: this is for tests. Safe from several host threads, one launch at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace lockstep::simt {

struct Place {
  dim3 thread;  // threadIdx
  unsigned lane = 0;
};

/// Of the fiber and the block that run now.
const Place& place();
extern dim3 block_index;
extern dim3 block_extent;
extern dim3 grid_extent;

/// Runs `body` once for each thread of each block. Throws lockstep::Error for a barrier that is not
/// reached by all.
void run(dim3 grid, dim3 block, size_t dynamic_shared_bytes, const std::function<void()>& body);

/// The order in which a block's threads run between barriers: 0 ascending, 1 descending, others
/// shuffled.
void set_schedule(unsigned seed);

void sync_block(int line);
void sync_warp(int line);
std::byte* dynamic_shared();

/// The value that lane `source` of this thread's warp passed to the same call.
uint64_t exchange_in_warp(uint64_t bits, unsigned source, int line);

/// Bit l: whether lane l of this thread's warp passed true to the same call.
unsigned vote_in_warp(bool vote, int line);

template <class T>
T shuffle(T value, unsigned source, int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange_in_warp(bits, source, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// An error unless `memory` is aligned to `bytes`, as a GPU wants an access of that width.
void require_aligned(const void* memory, size_t bytes);

/// One __shared__ variable: registers its memory to be poisoned. A static of the kernel, so that
/// the address sanitizer guards its ends.
class SharedRegion {
 public:
  SharedRegion(void* memory, size_t bytes);
};

template <class T>
class Shared {
 public:
  Shared() : region_(memory_, sizeof(T)) {}
  T& get() { return *reinterpret_cast<T*>(memory_); }

 private:
  alignas(T) std::byte memory_[sizeof(T)];
  [[no_unique_address]] SharedRegion region_;
};

}  // namespace lockstep::simt

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define threadIdx (::lockstep::simt::place().thread)
#define blockIdx (::lockstep::simt::block_index)
#define blockDim (::lockstep::simt::block_extent)
#define gridDim (::lockstep::simt::grid_extent)
#define __syncthreads() ::lockstep::simt::sync_block(__LINE__)
#define __syncwarp() ::lockstep::simt::sync_warp(__LINE__)
#define __shfl_sync(mask, value, source) ::lockstep::simt::shuffle(value, (source)&31u, __LINE__)
#define __shfl_xor_sync(mask, value, bits) \
  ::lockstep::simt::shuffle(value, ::lockstep::simt::place().lane ^ (bits), __LINE__)
#define __shfl_down_sync(mask, value, delta)                               \
  ::lockstep::simt::shuffle(value,                                         \
                            ::lockstep::simt::place().lane + (delta) < 32  \
                                ? ::lockstep::simt::place().lane + (delta) \
                                : ::lockstep::simt::place().lane,          \
                            __LINE__)
#define __ballot_sync(mask, vote) ::lockstep::simt::vote_in_warp((vote), __LINE__)
#define __popc(bits) __builtin_popcount(bits)
#define LOCKSTEP_SHARED(type, name, extent)                    \
  using name##_array = type extent;                            \
  static ::lockstep::simt::Shared<name##_array> name##_memory; \
  auto& name = name##_memory.get()
#define LOCKSTEP_DYNAMIC_SHARED(type, name) \
  type* name = reinterpret_cast<type*>(::lockstep::simt::dynamic_shared())

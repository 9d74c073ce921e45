// The shim itself: what it lets through, the tests of the kernels let through.
#include "lockstep/tensor/cuda/simt/simt.h"

#include "lockstep/base/error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace lockstep::simt {
namespace {

std::string error_of(dim3 grid, dim3 block, const std::function<void()>& body) {
  try {
    run(grid, block, 0, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("every thread of every block runs once and knows where it is") {
  std::vector<int> seen(2 * 3 * 40);
  run(dim3(2, 3), dim3(10, 4), 0, [&] {
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    ++seen[(block * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x];
  });
  for (const int count : seen) CHECK(count == 1);
}

/// Each thread reads what its neighbour wrote; `barrier` false is the fault.
int sum_of_neighbours(bool barrier) {
  int wrong = 0;
  run(dim3(1), dim3(48), 0, [&] {
    LOCKSTEP_SHARED(unsigned, values, [48]);
    values[threadIdx.x] = threadIdx.x;
    if (barrier) __syncthreads();
    const unsigned other = (threadIdx.x + 1) % 48;
    if (values[other] != other) ++wrong;
  });
  return wrong;
}

TEST_CASE("grids and blocks that a GPU refuses are errors") {
  const auto nothing = [] {};
  CHECK(error_of(dim3(1, 65535), dim3(32), nothing) == "");
  for (const dim3 grid : {dim3(0), dim3(1, 65536), dim3(1, 1, 65536)}) {
    CHECK(error_of(grid, dim3(32), nothing).find("a GPU refuses a grid of") != std::string::npos);
  }
  CHECK(error_of(dim3(1), dim3(1, 1, 65), nothing).find("got 1 x 1 x 65") != std::string::npos);
}

TEST_CASE("a missing barrier shows: shared memory is poisoned, whatever the order of threads") {
  for (const unsigned schedule : {0u, 1u, 5u}) {
    set_schedule(schedule);
    CHECK(sum_of_neighbours(true) == 0);
    CHECK(sum_of_neighbours(false) > 0);
  }
  set_schedule(0);
}

TEST_CASE("shared memory does not survive from block to block") {
  int poisoned = 0;
  run(dim3(4), dim3(1), 8, [&] {
    LOCKSTEP_SHARED(float, fixed, [1]);
    LOCKSTEP_DYNAMIC_SHARED(float, dynamic);
    if (std::isnan(fixed[0]) && std::isnan(dynamic[1])) ++poisoned;
    fixed[0] = 1;
    dynamic[1] = 1;
  });
  CHECK(poisoned == 4);
}

TEST_CASE("divergent barriers are errors") {
  CHECK(
      error_of(dim3(1), dim3(8), [] {
        if (threadIdx.x != 3) __syncthreads();
      }).find("7 of 8 threads wait at a barrier that the others never reach") != std::string::npos);
  CHECK(error_of(dim3(1), dim3(8), [] {
          if (threadIdx.x < 4) {
            __syncthreads();
          } else {
            __syncthreads();
          }
        }).find("threads meet at a barrier on line") != std::string::npos);
  CHECK(error_of(dim3(2), dim3(8), [] { __syncthreads(); }) == "");
}

TEST_CASE("a wide access that is not aligned is an error") {
  alignas(16) float memory[8] = {};
  CHECK(error_of(dim3(1), dim3(2), [&] { require_aligned(memory + 4 * threadIdx.x, 16); }) == "");
  CHECK(error_of(dim3(1), dim3(2), [&] { require_aligned(memory + threadIdx.x, 16); })
            .find("an access of 16 bytes, 4 bytes from where it would be aligned") !=
        std::string::npos);
}

TEST_CASE("warp shuffles exchange within a warp, also in the last, shorter one") {
  int wrong = 0;
  run(dim3(1), dim3(40), 0, [&] {
    const unsigned lane = threadIdx.x % 32;
    const unsigned lanes = threadIdx.x < 32 ? 32 : 8;
    const double partner = __shfl_xor_sync(0xffffffffu, 1.5 * threadIdx.x, 4u);
    if (partner != 1.5 * (threadIdx.x ^ 4u)) ++wrong;
    const unsigned below = __shfl_down_sync(0xffffffffu, threadIdx.x, 1u);
    if (lane + 1 < lanes && below != threadIdx.x + 1) ++wrong;
    if (__shfl_sync(0xffffffffu, threadIdx.x, 0u) != threadIdx.x - lane) ++wrong;
    __syncwarp();
  });
  CHECK(wrong == 0);
}

TEST_CASE("a ballot collects the votes of a warp, also of the last, shorter one") {
  int wrong = 0;
  run(dim3(1), dim3(40), 0, [&] {
    const unsigned wanted = threadIdx.x < 32 ? 0x92492492u : 0x24u;
    const unsigned votes = __ballot_sync(0xffffffffu, threadIdx.x % 3 == 1);
    if (votes != wanted || __popc(votes) != (threadIdx.x < 32 ? 11 : 2)) ++wrong;
  });
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace lockstep::simt

#include "lockstep/tensor/cuda/tables.h"

#include "lockstep/tensor/cuda/make_backend.h"

namespace lockstep::LOCKSTEP_GPU {

HeavyKernels own_heavy_kernels() {
  return {.matmul = kMatmul, .conv = kConv, .attention = kAttention};
}

#ifdef __CUDACC__
__global__ void probe_kernel() {}

bool kernels_fit() {
  cudaFuncAttributes attributes{};
  const bool fit = cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess;
  cudaGetLastError();  // a probe that failed must not fail the next launch too
  return fit;
}
#endif

Backend make_backend(const char* name, const DeviceMemory& memory, const DeviceStreams& streams,
                     const HeavyKernels& heavy) {
  return {
      .name = name,
      .memory = memory,
      .streams = streams,
      .activation = kActivation,
      .conv = heavy.conv,
      .copy = kCopy,
      .norm = kNorm,
      .optimizer = kOptimizer,
      .pool = kPool,
      .random = kRandom,
      .loss = kLoss,
      .matmul = heavy.matmul,
      .dropout = kDropout,
      .elementwise = kElementwise,
      .layout = kLayout,
      .reduce = kReduce,
      .metrics = kMetrics,
      .softmax = kSoftmax,
      .attention = heavy.attention,
      .group_norm = kGroupNorm,
      .index = kIndex,
      .pair_loss = kPairLoss,
      .select = kSelect,
      .unary = kUnary,
  };
}

}  // namespace lockstep::LOCKSTEP_GPU

#include "lockstep/tensor/cpu/cpu_backend.h"

namespace lockstep {

const Backend& cpu_backend() {
  static const Backend table{
      .name = "cpu",
      .memory = device_memory(Device::cpu()),
      .streams = device_streams(Device::cpu()),
      .activation = kCpuActivation,
      .conv = kCpuConv,
      .copy = kCpuCopy,
      .norm = kCpuNorm,
      .optimizer = kCpuOptimizer,
      .pool = kCpuPool,
      .random = kCpuRandom,
      .loss = kCpuLoss,
      .matmul = kCpuMatmul,
      .dropout = kCpuDropout,
      .elementwise = kCpuElementwise,
      .layout = kCpuLayout,
      .reduce = kCpuReduce,
      .metrics = kCpuMetrics,
      .softmax = kCpuSoftmax,
      .attention = kCpuAttention,
      .group_norm = kCpuGroupNorm,
      .index = kCpuIndex,
      .pair_loss = kCpuPairLoss,
      .select = kCpuSelect,
      .unary = kCpuUnary,
  };
  return table;
}

}  // namespace lockstep

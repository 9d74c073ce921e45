#include "lockstep/tensor/cuda/tables.h"

#include "lockstep/tensor/cuda/make_backend.h"
#include "lockstep/tensor/cuda/missing.h"
#include "lockstep/tensor/ops/attention.h"
#include "lockstep/tensor/ops/conv.h"
#include "lockstep/tensor/ops/group_norm.h"
#include "lockstep/tensor/ops/index.h"
#include "lockstep/tensor/ops/loss.h"
#include "lockstep/tensor/ops/pair_loss.h"
#include "lockstep/tensor/ops/pool.h"
#include "lockstep/tensor/ops/softmax.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

// Families that have no CUDA kernel yet. One that gets its first moves to a file of its own.

const LossKernels kLoss{
    .cross_entropy = missing_kernel<"cross_entropy">,
    .cross_entropy_backward = missing_kernel<"cross_entropy_backward">,
    .nll = missing_kernel<"nll">,
    .nll_backward = missing_kernel<"nll_backward">,
};

const PoolKernels kPool{
    .max_forward = missing_kernel<"max_pool2d">,
    .max_backward = missing_kernel<"max_pool2d_backward">,
    .avg_forward = missing_kernel<"avg_pool2d">,
    .avg_backward = missing_kernel<"avg_pool2d_backward">,
};

const SoftmaxKernels kSoftmax{
    .softmax = missing_kernel<"softmax">,
    .log_softmax = missing_kernel<"log_softmax">,
    .softmax_backward = missing_kernel<"softmax_backward">,
    .log_softmax_backward = missing_kernel<"log_softmax_backward">,
};

const GroupNormKernels kGroupNorm{
    .forward = missing_kernel<"layer_norm, group_norm">,
    .backward = missing_kernel<"layer_norm_backward, group_norm_backward">,
};

const IndexKernels kIndex{
    .gather = missing_kernel<"gather">,
    .scatter_add = missing_kernel<"scatter_add">,
    .embedding = missing_kernel<"embedding">,
    .embedding_backward = missing_kernel<"embedding_backward">,
};

const PairLossKernels kPairLoss{
    .mse = missing_kernel<"mse">,
    .mse_backward = missing_kernel<"mse_backward">,
    .bce_with_logits = missing_kernel<"bce_with_logits">,
    .bce_with_logits_backward = missing_kernel<"bce_with_logits_backward">,
    .cosine_embedding = missing_kernel<"cosine_embedding">,
    .cosine_embedding_backward = missing_kernel<"cosine_embedding_backward">,
};

}  // namespace

HeavyKernels own_heavy_kernels() {
  return {.matmul = kMatmul, .conv = kConv, .attention = kAttention};
}

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

#include "lockstep/tensor/cuda/tables.h"

#include "lockstep/tensor/cuda/make_backend.h"
#include "lockstep/tensor/cuda/missing.h"
#include "lockstep/tensor/ops/attention.h"
#include "lockstep/tensor/ops/conv.h"
#include "lockstep/tensor/ops/dropout.h"
#include "lockstep/tensor/ops/elementwise.h"
#include "lockstep/tensor/ops/group_norm.h"
#include "lockstep/tensor/ops/index.h"
#include "lockstep/tensor/ops/layout.h"
#include "lockstep/tensor/ops/loss.h"
#include "lockstep/tensor/ops/metrics.h"
#include "lockstep/tensor/ops/pair_loss.h"
#include "lockstep/tensor/ops/pool.h"
#include "lockstep/tensor/ops/random.h"
#include "lockstep/tensor/ops/reduce.h"
#include "lockstep/tensor/ops/select.h"
#include "lockstep/tensor/ops/softmax.h"
#include "lockstep/tensor/ops/unary.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

// Families that have no CUDA kernel yet. One that gets its first moves to a file of its own.

const DropoutKernels kDropout{
    .apply = missing_kernel<"dropout">,
};

const ElementwiseKernels kElementwise{
    .binary = missing_kernel<"add, sub, mul, div">,
    .affine = missing_kernel<"affine">,
    .mul_backward = missing_kernel<"mul_backward">,
    .div_backward_a = missing_kernel<"div_backward">,
    .div_backward_b = missing_kernel<"div_backward">,
};

const LayoutKernels kLayout{
    .copy_block = missing_kernel<"slice, concat">,
    .permute = missing_kernel<"permute">,
};

const LossKernels kLoss{
    .cross_entropy = missing_kernel<"cross_entropy">,
    .cross_entropy_backward = missing_kernel<"cross_entropy_backward">,
    .nll = missing_kernel<"nll">,
    .nll_backward = missing_kernel<"nll_backward">,
};

const MetricsKernels kMetrics{
    .count_correct = missing_kernel<"count_correct">,
};

const PoolKernels kPool{
    .max_forward = missing_kernel<"max_pool2d">,
    .max_backward = missing_kernel<"max_pool2d_backward">,
    .avg_forward = missing_kernel<"avg_pool2d">,
    .avg_backward = missing_kernel<"avg_pool2d_backward">,
};

const RandomKernels kRandom{
    .uniform = missing_kernel<"uniform">,
    .normal = missing_kernel<"normal">,
};

const ReduceKernels kReduce{
    .sum_to = missing_kernel<"sum">,
    .broadcast_to = missing_kernel<"broadcast_to">,
    .max = missing_kernel<"max">,
    .max_backward = missing_kernel<"max_backward">,
    .sum_of_squares = missing_kernel<"sum_of_squares">,
    .scale_and_check = missing_kernel<"scale_and_check">,
    .all_finite = missing_kernel<"all_finite">,
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

const SelectKernels kSelect{
    .compare = missing_kernel<"compare">,
    .where = missing_kernel<"where">,
    .keep_where = missing_kernel<"where_backward">,
};

const UnaryKernels kUnary{
    .forward = missing_kernel<"gelu, sigmoid, tanh, silu, log, exp, sqrt">,
    .backward = missing_kernel<"the gradient of gelu, sigmoid, tanh, silu, log, exp, sqrt">,
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

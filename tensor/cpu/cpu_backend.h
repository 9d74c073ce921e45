// The CPU's set of kernels.
#pragma once

#include "lockstep/tensor/backend.h"

namespace lockstep {

const Backend& cpu_backend();

extern const ActivationKernels kCpuActivation;
extern const ConvKernels kCpuConv;
extern const CopyKernels kCpuCopy;
extern const NormKernels kCpuNorm;
extern const OptimizerKernels kCpuOptimizer;
extern const PoolKernels kCpuPool;
extern const RandomKernels kCpuRandom;
extern const LossKernels kCpuLoss;
extern const MatmulKernels kCpuMatmul;
extern const DropoutKernels kCpuDropout;
extern const ElementwiseKernels kCpuElementwise;
extern const LayoutKernels kCpuLayout;
extern const ReduceKernels kCpuReduce;
extern const MetricsKernels kCpuMetrics;
extern const SoftmaxKernels kCpuSoftmax;
extern const AttentionKernels kCpuAttention;
extern const GroupNormKernels kCpuGroupNorm;
extern const IndexKernels kCpuIndex;
extern const PairLossKernels kCpuPairLoss;
extern const SelectKernels kCpuSelect;
extern const UnaryKernels kCpuUnary;

}  // namespace lockstep

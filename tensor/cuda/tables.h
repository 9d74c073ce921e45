// The kernel tables, each in a file <family>.cu; tables.cu puts the backend together.
#pragma once

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/cuda/launch.h"

namespace lockstep::LOCKSTEP_GPU {

extern const ActivationKernels kActivation;
extern const AttentionKernels kAttention;
extern const ConvKernels kConv;
extern const CopyKernels kCopy;
extern const DropoutKernels kDropout;
extern const ElementwiseKernels kElementwise;
extern const GroupNormKernels kGroupNorm;
extern const IndexKernels kIndex;
extern const LayoutKernels kLayout;
extern const LossKernels kLoss;
extern const MatmulKernels kMatmul;
extern const MetricsKernels kMetrics;
extern const NormKernels kNorm;
extern const OptimizerKernels kOptimizer;
extern const PairLossKernels kPairLoss;
extern const PoolKernels kPool;
extern const RandomKernels kRandom;
extern const ReduceKernels kReduce;
extern const SelectKernels kSelect;
extern const SoftmaxKernels kSoftmax;
extern const UnaryKernels kUnary;

}  // namespace lockstep::LOCKSTEP_GPU

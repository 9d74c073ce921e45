// The kernel tables that have a file <family>.cu; tables.cu puts the backend together.
#pragma once

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/cuda/launch.h"

namespace lockstep::LOCKSTEP_GPU {

extern const ActivationKernels kActivation;
extern const AttentionKernels kAttention;
extern const ConvKernels kConv;
extern const CopyKernels kCopy;
extern const MatmulKernels kMatmul;
extern const NormKernels kNorm;
extern const OptimizerKernels kOptimizer;

}  // namespace lockstep::LOCKSTEP_GPU

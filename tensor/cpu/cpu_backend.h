// The CPU's set of kernels.
#pragma once

#include "lockstep/tensor/backend.h"

namespace lockstep {

const Backend& cpu_backend();

extern const ActivationKernels kCpuActivation;
extern const CopyKernels kCpuCopy;
extern const OptimizerKernels kCpuOptimizer;
extern const RandomKernels kCpuRandom;
extern const MatmulKernels kCpuMatmul;
extern const ElementwiseKernels kCpuElementwise;
extern const ReduceKernels kCpuReduce;

}  // namespace lockstep

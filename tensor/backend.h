// The one seam between ops and kernels. A Backend is a device's complete set of kernel tables, one
// table for each family of ops. Tables and their entries are references, so a backend that lacks a
// family or a kernel does not compile.
//
// Tables are declared beside the public functions in tensor/ops/<family>.h; tensor/cpu and
// tensor/cuda define them.
#pragma once

#include "lockstep/tensor/device.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/stream.h"

namespace lockstep {

struct ActivationKernels;
struct ConvKernels;
struct CopyKernels;
struct NormKernels;
struct OptimizerKernels;
struct PoolKernels;
struct RandomKernels;
struct LossKernels;
struct MatmulKernels;
struct DropoutKernels;
struct ElementwiseKernels;
struct LayoutKernels;
struct ReduceKernels;
struct MetricsKernels;
struct SoftmaxKernels;
struct AttentionKernels;
struct GroupNormKernels;
struct IndexKernels;
struct PairLossKernels;
struct SelectKernels;
struct UnaryKernels;

struct Backend {
  const char* name;
  const DeviceMemory& memory;
  const DeviceStreams& streams;
  const ActivationKernels& activation;
  const ConvKernels& conv;
  const CopyKernels& copy;
  const NormKernels& norm;
  const OptimizerKernels& optimizer;
  const PoolKernels& pool;
  const RandomKernels& random;
  const LossKernels& loss;
  const MatmulKernels& matmul;
  const DropoutKernels& dropout;
  const ElementwiseKernels& elementwise;
  const LayoutKernels& layout;
  const ReduceKernels& reduce;
  const MetricsKernels& metrics;
  const SoftmaxKernels& softmax;
  const AttentionKernels& attention;
  const GroupNormKernels& group_norm;
  const IndexKernels& index;
  const PairLossKernels& pair_loss;
  const SelectKernels& select;
  const UnaryKernels& unary;
};

/// The backend of a device. Throws UnsupportedError for CUDA when this build or this machine has
/// none.
const Backend& backend(Device device);

/// Puts `backend` behind Device::cuda() and returns what an earlier call put there (null: none,
/// then the CUDA library's own, if it is linked and finds a driver, is used again). For tests that
/// put a simulated device there; not to be called while such tensors exist.
const Backend* set_cuda_backend(const Backend* backend);

}  // namespace lockstep

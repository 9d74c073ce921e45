// Convolutions by cuDNN: f32 (in TF32 where allow_tf32() says so) and bf16.
//
// Images of 3 channels need no padding of ours: in bf16 cuDNN pads them to 8 in its workspace,
// which moves the bytes that a padded copy would.
#pragma once

#include "lockstep/tensor/ops/conv.h"

namespace lockstep::cuda {

/// f64, and what cuDNN has no plan for, go to our own kernels.
///
/// cuDNN has no engine that sums bf16 products to an f32 gradient of the weight. Where that
/// gradient is a product of matrices cuBLASLt writes it, in f32; elsewhere it is rounded to bf16
/// once, and converted into the f32 destination.
extern const ConvKernels kCudnnConv;

}  // namespace lockstep::cuda

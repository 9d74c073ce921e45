// The embedding entries of IndexKernels, which have a file of their own.
#pragma once

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/dest.h"

#include <cstdint>

namespace lockstep::LOCKSTEP_GPU {

void embedding(const Tensor& weight, const Tensor& ids, Tensor& y);
void embedding_backward(const Tensor& grad_y, const Tensor& ids, int64_t padding_idx,
                        const Dest& grad_weight);

}  // namespace lockstep::LOCKSTEP_GPU

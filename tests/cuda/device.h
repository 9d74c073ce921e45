// What stands behind Device::cuda() in the kernels' tests: their sources running on the CPU, or
// with LOCKSTEP_DEVICE=cuda in the environment (and --config=cuda, and a GPU) the GPU itself. The
// tests are the same.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

#include <functional>

namespace lockstep::testing {

/// Runs fn with the device under test behind Device::cuda(), once for each of several orders in
/// which the threads of a block may run: a kernel must not depend on it.
void on_cuda_device(const std::function<void()>& fn);

Tensor to_cuda(const Tensor& x);
Tensor to_cpu(const Tensor& x);

/// What fn writes to, or adds to, on `device`, copied to the CPU; `before` is what was there.
Tensor into(Device device, const Tensor& before, bool accumulate,
            const std::function<void(const Dest&)>& fn);

}  // namespace lockstep::testing

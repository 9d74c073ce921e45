#include "lockstep/nn/batch_norm.h"

#include "lockstep/autograd/checkpoint.h"
#include "lockstep/tensor/captured_step.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep {

BatchNorm2d::BatchNorm2d(const BatchNorm2dSpec& spec) : spec_(spec) {
  check(spec.channels > 0, "BatchNorm2d: wanted channels > 0, got ", spec.channels);
  weight = Variable(ops::full({spec.channels}, 1, DType::kF32), true);
  bias = Variable(Tensor::zeros({spec.channels}, DType::kF32), true);
  running_mean_ = Tensor::zeros({spec.channels}, DType::kF32);
  running_var_ = ops::full({spec.channels}, 1, DType::kF32);
  num_batches_tracked_ = Tensor::zeros({}, DType::kI64);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  register_buffer("running_mean", running_mean_);
  register_buffer("running_var", running_var_);
  register_buffer("num_batches_tracked", num_batches_tracked_);
}

BatchNormOptions BatchNorm2d::next_batch() {
  if (training() && !recomputing()) {
    in_each_step([count = num_batches_tracked_]() mutable { ++*count.mutable_data<int64_t>(); });
  }
  return {
      .training = training(), .momentum = spec_.momentum, .eps = spec_.eps, .exchange = exchange_};
}

Variable BatchNorm2d::forward(const Variable& x) {
  return batch_norm(x, weight, bias, running_mean_, running_var_, next_batch());
}

Variable BatchNorm2d::forward_relu(const Variable& x, const Variable& residual) {
  return batch_norm_relu(x, weight, bias, running_mean_, running_var_, next_batch(), residual);
}

}  // namespace lockstep

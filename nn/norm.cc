#include "lockstep/nn/norm.h"

#include "lockstep/tensor/ops/copy.h"

namespace lockstep {

LayerNorm::LayerNorm(const LayerNormSpec& spec) : spec_(spec) {
  check(spec.normalized.ndim() > 0 && spec.normalized.numel() > 0,
        "LayerNorm: wanted positive dimensions, got ", spec.normalized);
  if (!spec.affine) return;
  weight = Variable(ops::full(spec.normalized, 1, DType::kF32), true);
  register_parameter("weight", weight);
  if (!spec.bias) return;
  bias = Variable(Tensor::zeros(spec.normalized, DType::kF32), true);
  register_parameter("bias", bias);
}

Variable LayerNorm::forward(const Variable& x) {
  return layer_norm(x, spec_.normalized, weight, bias, spec_.eps);
}

Variable LayerNorm::forward(const Variable& x, const Variable& residual, const Dropout& dropout) {
  return dropout_add_layer_norm(
      x, residual, spec_.normalized, weight, bias,
      {.dropout = dropout.p(), .rng = &dropout.generator(), .eps = spec_.eps});
}

GroupNorm::GroupNorm(const GroupNormSpec& spec) : spec_(spec) {
  check(spec.groups > 0 && spec.channels > 0 && spec.channels % spec.groups == 0,
        "GroupNorm: wanted groups that divide the channels, got ", spec.groups, " and ",
        spec.channels);
  if (!spec.affine) return;
  weight = Variable(ops::full({spec.channels}, 1, DType::kF32), true);
  bias = Variable(Tensor::zeros({spec.channels}, DType::kF32), true);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Variable GroupNorm::forward(const Variable& x) {
  check(x.shape().ndim() > 0 && x.dim(-1) == spec_.channels, "GroupNorm: wanted x [N, ..., ",
        spec_.channels, "], got ", x.shape());
  return group_norm(x, spec_.groups, weight, bias, spec_.eps);
}

}  // namespace lockstep

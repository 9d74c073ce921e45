#include "lockstep/nn/linear.h"

#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/nn/init.h"

namespace lockstep {

Linear::Linear(const LinearSpec& spec, Generator& rng) {
  check(spec.in_features > 0 && spec.out_features > 0, "Linear: wanted positive sizes, got ",
        spec.in_features, " to ", spec.out_features);
  Tensor w = Tensor::empty({spec.out_features, spec.in_features}, DType::kF32);
  init::default_weight(w, rng);
  weight = Variable(w, true);
  register_parameter("weight", weight);
  if (spec.bias) {
    Tensor b = Tensor::empty({spec.out_features}, DType::kF32);
    init::default_bias(b, w.shape(), rng);
    bias = Variable(b, true);
    register_parameter("bias", bias);
  }
}

Variable Linear::forward(const Variable& x) { return linear(x, weight, bias); }

}  // namespace lockstep

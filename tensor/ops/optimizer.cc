#include "lockstep/tensor/ops/optimizer.h"

#include "lockstep/tensor/backend.h"

namespace lockstep::ops {

void sgd_step(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step) {
  const auto fits = [&](const Tensor& t) {
    return t.shape() == param.shape() && t.dtype() == param.dtype() && t.device() == param.device();
  };
  check(fits(grad), "sgd_step: wanted a gradient like the parameter, ", name_of(param.dtype()), " ",
        param.shape(), ", got ", name_of(grad.dtype()), " ", grad.shape());
  check(step.momentum == 0 || (velocity.defined() && fits(velocity)),
        "sgd_step: momentum wants a velocity like the parameter, ", name_of(param.dtype()), " ",
        param.shape());
  check(!step.nesterov || step.momentum != 0, "sgd_step: nesterov wants a momentum above 0");
  Tensor none;
  backend(param.device())
      .optimizer.sgd_step(param, grad, step.momentum == 0 ? none : velocity, step);
}

}  // namespace lockstep::ops

#include "lockstep/tensor/ops/optimizer.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

namespace lockstep::ops {
namespace {

bool fits(const Tensor& t, const Tensor& param) {
  return t.shape() == param.shape() && t.dtype() == param.dtype() && t.device() == param.device();
}

void check_gradient(const char* caller, const Tensor& grad, const Tensor& param) {
  check(fits(grad, param), caller, ": wanted a gradient like the parameter, ",
        name_of(param.dtype()), " ", param.shape(), ", got ", name_of(grad.dtype()), " ",
        grad.shape());
}

void check_shadow(const char* caller, const Tensor& shadow, const Tensor& param) {
  if (!shadow.defined()) return;
  check(param.dtype() == DType::kF32 && shadow.dtype() == DType::kBF16 &&
            shadow.shape() == param.shape() && shadow.device() == param.device(),
        caller, ": wanted a shadow of bf16 ", param.shape(), " for a parameter of f32, got ",
        name_of(shadow.dtype()), " ", shadow.shape(), " for ", name_of(param.dtype()));
}

void check_moments(const char* caller, const Tensor& param, const Tensor& grad, const Tensor& m,
                   const Tensor& v, const AdamStep& step) {
  check_gradient(caller, grad, param);
  check(m.defined() && v.defined() && fits(m, param) && fits(v, param), caller,
        ": wanted two moments like the parameter, ", name_of(param.dtype()), " ", param.shape());
  check(step.step >= 1, caller, ": wanted a step >= 1, got ", step.step);
}

}  // namespace

void sgd_step(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step,
              Tensor shadow) {
  check_gradient("sgd_step", grad, param);
  check_shadow("sgd_step", shadow, param);
  check(step.momentum == 0 || (velocity.defined() && fits(velocity, param)),
        "sgd_step: momentum wants a velocity like the parameter, ", name_of(param.dtype()), " ",
        param.shape());
  check(!step.nesterov || step.momentum != 0, "sgd_step: nesterov wants a momentum above 0");
  Tensor none;
  backend(param.device())
      .optimizer.sgd_step(param, grad, step.momentum == 0 ? none : velocity, step, shadow);
}

void adam_step(Tensor& param, const Tensor& grad, Tensor& m, Tensor& v, const AdamStep& step,
               Tensor shadow) {
  check_moments("adam_step", param, grad, m, v, step);
  check_shadow("adam_step", shadow, param);
  backend(param.device()).optimizer.adam_step(param, grad, m, v, step, shadow);
}

void lamb_step(Tensor& param, const Tensor& grad, Tensor& m, Tensor& v, const AdamStep& step,
               Tensor shadow) {
  check_moments("lamb_step", param, grad, m, v, step);
  check_shadow("lamb_step", shadow, param);
  Tensor squares = Tensor::empty({2}, DType::kF64, param.device());
  const OptimizerKernels& kernels = backend(param.device()).optimizer;
  kernels.lamb_moments(param, grad, m, v, step, squares);
  kernels.lamb_apply(param, m, v, step, squares, shadow);
}

void lerp(Tensor& average, const Tensor& value, double weight) {
  check(fits(value, average), "lerp: wanted a value like the average, ", name_of(average.dtype()),
        " ", average.shape(), ", got ", name_of(value.dtype()), " ", value.shape());
  check(weight >= 0 && weight <= 1, "lerp: wanted a weight from 0 to 1, got ", weight);
  backend(average.device()).optimizer.lerp(average, value, weight);
}

void clip_factor(const Tensor& squares, double max_norm, Tensor& result) {
  check(squares.dtype() == DType::kF64 && result.dtype() == DType::kF64 && result.numel() == 2,
        "clip_factor: wanted squares of f64 and a result of two, got ", name_of(squares.dtype()),
        " and ", name_of(result.dtype()), " ", result.shape());
  check_device("clip_factor", squares, result, "the result");
  backend(squares.device()).optimizer.clip_factor(squares, max_norm, result);
}

void scale_by(const Tensor& factor, Tensor& x) {
  check(factor.dtype() == DType::kF64 && factor.numel() == 1,
        "scale_by: wanted a factor of one f64, got ", name_of(factor.dtype()), " ", factor.shape());
  check_device("scale_by", x, factor, "the factor");
  backend(x.device()).optimizer.scale_by(factor, x);
}

}  // namespace lockstep::ops

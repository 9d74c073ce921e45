#include "lockstep/autograd/ops/cast.h"

#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep {

Variable cast(const Variable& x, DType dtype) {
  check(is_computable(dtype) && is_computable(x.dtype()), "cast: wanted f32, f64 or bf16, got ",
        name_of(x.dtype()), " to ", name_of(dtype));
  if (x.dtype() == dtype) return x;
  return record("cast", ops::cast(x.data(), dtype), {x},
                [from = x.dtype()](const Tensor& grad_y, GradSink& sink) {
                  Dest grad_x = sink.dest(0);
                  if (grad_x.accumulate) {
                    ops::add_scaled(ops::cast(grad_y, from), 1.0, grad_x.out);
                  } else {
                    ops::copy(grad_y, grad_x.out);
                  }
                });
}

}  // namespace lockstep

#include "lockstep/tensor/ops/copy.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

namespace lockstep::ops {

void fill(Tensor& out, double value) { backend(out.device()).copy.fill(value, out); }

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor out = Tensor::empty(shape, dtype, device);
  fill(out, value);
  return out;
}

void copy(const Tensor& in, Tensor& out) {
  check(in.shape() == out.shape(), "copy: from ", in.shape(), " to ", out.shape());
  check(in.device() == out.device(), "copy: from ", to_string(in.device()), " to ",
        to_string(out.device()), "; use to_device");
  backend(in.device()).copy.copy(in, out);
}

Tensor clone(const Tensor& x) {
  Tensor out = Tensor::empty(x.shape(), x.dtype(), x.device());
  copy(x, out);
  return out;
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor out = Tensor::empty(x.shape(), dtype, x.device());
  copy(x, out);
  return out;
}

Tensor to_device(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  Tensor out = Tensor::empty(x.shape(), x.dtype(), device);
  device_memory(x.device().is_cpu() ? device : x.device())
      .copy(out.mutable_raw(), x.raw(), x.nbytes());
  return out;
}

void add_scaled(const Tensor& x, double alpha, Tensor& y) {
  check(x.shape() == y.shape() && x.dtype() == y.dtype(), "add_scaled: ", name_of(x.dtype()), " ",
        x.shape(), " to ", name_of(y.dtype()), " ", y.shape());
  check_device("add_scaled", y, x, "x");
  backend(y.device()).copy.add_scaled(x, alpha, y);
}

void scale(Tensor& x, double factor) { backend(x.device()).copy.scale(factor, x); }

}  // namespace lockstep::ops

// Filling, copying, converting and in-place accumulation: what has no gradient of its own.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct CopyKernels {
  void (&fill)(double value, Tensor& out);
  void (&copy)(const Tensor& in, Tensor& out);
  void (&add_scaled)(const Tensor& x, double alpha, Tensor& y);
  void (&scale)(double factor, Tensor& x);
};

namespace ops {

/// Any dtype; the value is converted.
void fill(Tensor& out, double value);
Tensor full(const Shape& shape, double value, DType dtype, Device device = Device::cpu());
/// out = in, converting the dtype. Same shape and device. Floats to integers truncate.
void copy(const Tensor& in, Tensor& out);
Tensor clone(const Tensor& x);
/// `x` itself when it has that dtype already, else a converted copy.
Tensor cast(const Tensor& x, DType dtype);
/// `x` itself when it is on that device already, else a copy there.
Tensor to_device(const Tensor& x, Device device);
/// y += alpha * x. Same shape, dtype and device; floating.
void add_scaled(const Tensor& x, double alpha, Tensor& y);
/// x *= factor. Floating.
void scale(Tensor& x, double factor);

}  // namespace ops
}  // namespace lockstep

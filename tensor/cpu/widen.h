// Computing in a wider type where there is no kernel for a tensor's own on this processor.
#pragma once

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep::cpu {

/// `x` in `dtype`; itself when it is, or is undefined.
inline Tensor in_dtype(const Tensor& x, DType dtype) {
  if (!x.defined() || x.dtype() == dtype) return x;
  Tensor out = Tensor::empty(x.shape(), dtype);
  kCpuCopy.copy(x, out);
  return out;
}

/// Runs `fn` on a fresh tensor of `dtype` that stands in for `dest`, then puts the result there; on
/// `dest` itself when that has the dtype.
template <class Fn>
void through(DType dtype, const Dest& dest, Fn&& fn) {
  if (dest.out.dtype() == dtype) return fn(dest);
  const Dest wide{Tensor::empty(dest.out.shape(), dtype), false};
  fn(wide);
  Tensor out = dest.out;
  if (dest.accumulate) {
    kCpuCopy.add_scaled(in_dtype(wide.out, out.dtype()), 1.0, out);
  } else {
    kCpuCopy.copy(wide.out, out);
  }
}

}  // namespace lockstep::cpu

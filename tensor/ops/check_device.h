// What ops refuse in one way: operands on two devices.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::ops {

/// Throws ArgumentError, naming `op`, unless `other`, which the message calls `name`, is where x
/// is. A kernel would follow the pointer into another device's memory.
inline void check_device(const char* op, const Tensor& x, const Tensor& other, const char* name) {
  if (other.device() == x.device()) [[likely]]
    return;
  throw ArgumentError(str(op, ": wanted ", name, " on ", to_string(x.device()),
                          " like the first operand, got it on ", to_string(other.device()),
                          "; move one of them with to_device"));
}

}  // namespace lockstep::ops

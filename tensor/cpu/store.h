// Writing a computed value in a loop that is to be vector code.
#pragma once

#include "lockstep/tensor/dtype.h"

namespace lockstep::cpu {

/// to = value, rounded. Under `omp simd` use this instead of `to = T(value)`: there g++ 12 keeps
/// the temporary of a class, such as bf16, in memory, and the loop stays scalar.
template <class T>
inline void store(T& to, compute_t<T> value) {
  to = T(value);
}

}  // namespace lockstep::cpu

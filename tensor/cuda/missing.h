// missing_kernel: stands in a kernel table where CUDA has no kernel yet.
#pragma once

#include "lockstep/base/error.h"

#include <algorithm>
#include <cstddef>

namespace lockstep {

template <size_t N>
struct OpName {
  constexpr OpName(const char (&text)[N]) { std::copy_n(text, N, chars); }
  char chars[N];
};

/// .exp = missing_kernel<"exp">: the other arguments are deduced from the entry. Throws
/// UnsupportedError when called.
template <OpName Name, class Result, class... Args>
Result missing_kernel(Args...) {
  throw UnsupportedError(
      str(Name.chars, ": there is no CUDA kernel for it yet; run this part on Device::cpu()"));
}

}  // namespace lockstep

// The exceptions of the library. A message is one line: it begins with the function that refuses,
// says what was wanted, what was got, and where it helps what to do about it.
#pragma once

#include "lockstep/base/str.h"

#include <stdexcept>
#include <string>

namespace lockstep {

/// Everything the library throws on purpose derives from this.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A wrong argument: shape, dtype, device, option, or a call in the wrong order.
class ArgumentError : public Error {
 public:
  using Error::Error;
};

/// A file that is missing, cut short, malformed or cannot be written.
class IoError : public Error {
 public:
  using Error::Error;
};

/// A peer is lost, late, or does not do what this rank does.
class CommError : public Error {
 public:
  using Error::Error;
};

/// What was asked for is not in this build or not on this machine.
class UnsupportedError : public Error {
 public:
  using Error::Error;
};

/// Throws ArgumentError(parts...) unless `condition` holds. The parts are formatted only on
/// failure.
template <class... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]] {
    throw ArgumentError(str(parts...));
  }
}

}  // namespace lockstep

// What programs print for their users is not lost without a word.
#pragma once

#include "lockstep/base/error.h"

#include <cerrno>
#include <cstdio>

namespace lockstep {

/// For the end of a program: throws IoError if what it printed could not all be written, as on a
/// full disk. A standard output that was closed from the start is nobody's loss.
inline void check_standard_output() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (errno == EBADF || (flushed && std::ferror(stdout) == 0)) return;
  throw IoError("standard output: not all could be written; is the disk full?");
}

}  // namespace lockstep

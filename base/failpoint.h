// Failpoints: named places at which a test lets the process die, to prove that what is on the disk
// survives it, or get another signal, to prove that none is lost.
//
//   LOCKSTEP_FAILPOINT=<name>[@k][:kill|term|usr1]     SIGKILL, SIGTERM or SIGUSR1 (default: the
//   first) at the k-th time (default: the first) that <name> is reached
//
// One is set at most; without one, failpoint() costs the test of a bool.
#pragma once

#include <string_view>

namespace lockstep {

namespace detail {
extern bool failpoint_set;
void failpoint_reached(std::string_view name);
}  // namespace detail

/// Marks a place. `name` is "<file>.<moment>", such as "atomic_file.before_rename".
inline void failpoint(std::string_view name) {
  if (detail::failpoint_set) [[unlikely]] {
    detail::failpoint_reached(name);
  }
}

/// Sets the failpoint as the variable would (empty: none) and counts from 0 again. For tests that
/// fork; not to be called while other threads run. Throws ArgumentError for a malformed
/// specification.
void set_failpoint(std::string_view specification);

}  // namespace lockstep

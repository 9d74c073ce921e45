// What the shared library does instead of the guard: it says why the program is about to die of an
// illegal instruction, and leaves the rest to the program. Compiled for the oldest x86-64, as
// isa_probe.cc is.
#include "lockstep/base/isa_guard.h"

#include <unistd.h>

namespace lockstep {
namespace {

// Before the library's other static constructors, and so before anybody could set a log sink.
__attribute__((constructor(101))) void warn_of_an_older_processor() {
  char line[512];
  const size_t length = isa_complaint(lockstep_isa_built_for, isa_available(), line, sizeof line);
  if (length == 0) return;
  [[maybe_unused]] const ssize_t written = write(2, line, length);
}

}  // namespace
}  // namespace lockstep

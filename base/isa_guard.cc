// Compiled for the oldest x86-64, as isa_probe.cc is.
#include "lockstep/base/isa_guard.h"

#include <unistd.h>

namespace lockstep {
namespace {

__attribute__((constructor(101))) void refuse_an_older_processor() {
  char line[512];
  const size_t length = isa_complaint(lockstep_isa_built_for, isa_available(), line, sizeof line);
  if (length == 0) return;
  if (write(2, line, length) < 0) _exit(1);
  _exit(1);
}

}  // namespace
}  // namespace lockstep

// Compiled for the oldest x86-64 (see BUILD.bazel), and uses C functions only: an inline function
// of the standard library instantiated here could be replaced by the linker with a newer
// processor's copy of it.
#include "lockstep/base/isa_guard.h"

#include "lockstep/base/isa_list.h"

#include <string.h>

namespace lockstep {
namespace {

size_t append(char* line, size_t at, size_t capacity, const char* text) {
  const size_t length = strlen(text);
  if (at + length >= capacity) return at;
  memcpy(line + at, text, length + 1);
  return at + length;
}

}  // namespace

IsaBits isa_available() {
  __builtin_cpu_init();
  IsaBits bits = 0;
#define LOCKSTEP_PROBE(bit, name, macro) \
  if (__builtin_cpu_supports(name)) bits |= IsaBits{1} << bit;
  LOCKSTEP_ISA_LIST(LOCKSTEP_PROBE)
#undef LOCKSTEP_PROBE
  return bits;
}

size_t isa_complaint(IsaBits built_for, IsaBits available, char* line, size_t capacity) {
  const IsaBits missing = built_for & ~available;
  if (missing == 0) return 0;
  size_t at =
      append(line, 0, capacity, "this program was built for a newer processor; this one lacks:");
#define LOCKSTEP_NAME(bit, name, macro)        \
  if (missing & (IsaBits{1} << bit)) {         \
    at = append(line, at, capacity, " " name); \
  }
  LOCKSTEP_ISA_LIST(LOCKSTEP_NAME)
#undef LOCKSTEP_NAME
  return append(line, at, capacity,
                "; rebuild it here with: bazel build --config=opt --config=baseline\n");
}

}  // namespace lockstep

// isa_guard: says plainly that a program was built for a newer processor, instead of dying of an
// illegal instruction. A program that links the target //base:isa_guard is guarded before its first
// static constructor runs; nothing needs to be called. The shared library only says it when it is
// loaded, in a line on standard error, and does not end the program.
#pragma once

#include <cstddef>

namespace lockstep {

/// One bit for each instruction set extension that the compiler may have used, in the order of
/// isa_name().
using IsaBits = unsigned long long;

/// What the bulk of the program was compiled for: its code is not run to find out.
extern "C" const IsaBits lockstep_isa_built_for;

/// What this processor and its kernel offer.
IsaBits isa_available();

/// Writes "this program was built for ... (missing: avx2 fma)..." into `line`, and returns its
/// length; 0 when nothing is missing.
size_t isa_complaint(IsaBits built_for, IsaBits available, char* line, size_t capacity);

}  // namespace lockstep

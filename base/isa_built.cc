// Compiled as everything else is: what the compiler may use here, it may have used anywhere. Holds
// a constant and no code, so that it can be read on any processor.
#include "lockstep/base/isa_guard.h"
#include "lockstep/base/isa_list.h"

namespace lockstep {
namespace {

// A macro that is not defined is an identifier, whose spelling begins with '_'; a defined one
// expands to 1.
constexpr bool is_defined(const char* expansion) { return expansion[0] != '_'; }

}  // namespace

#define LOCKSTEP_TEXT(x) #x
#define LOCKSTEP_EXPANSION(x) LOCKSTEP_TEXT(x)
#define LOCKSTEP_BIT(bit, name, macro) \
  | (is_defined(LOCKSTEP_EXPANSION(macro)) ? IsaBits{1} << bit : IsaBits{0})

extern "C" const IsaBits lockstep_isa_built_for = 0 LOCKSTEP_ISA_LIST(LOCKSTEP_BIT);

}  // namespace lockstep

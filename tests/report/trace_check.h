// A strict reader of Chrome's trace format, as far as Lockstep writes it.
#pragma once

#include <string>

namespace lockstep::testing {

/// What is wrong with a trace (JSON text), or "". Each event has what its kind needs; each lane and
/// each process has one name; on a lane slices are nested or apart, on one of communication apart.
std::string trace_fault(const std::string& text);

}  // namespace lockstep::testing

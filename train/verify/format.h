// Numbers in a verification's words.
#pragma once

#include <string>

namespace lockstep {

/// "3.1e-7", "0", "infinity".
std::string short_number(double value);

}  // namespace lockstep

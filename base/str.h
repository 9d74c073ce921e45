// str(a, b, c): the parts written one after the other, as std::ostream writes them. For messages.
#pragma once

#include <sstream>
#include <string>

namespace lockstep {

template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace lockstep

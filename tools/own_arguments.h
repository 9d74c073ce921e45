// A command that starts ranks of itself runs the same command line in each.
#pragma once

#include "lockstep/base/error.h"

#include <fstream>
#include <string>
#include <vector>

namespace lockstep::tools {

/// The arguments after the program's name, as this process was started with.
inline std::vector<std::string> own_arguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> all;
  for (std::string argument; std::getline(in, argument, '\0');) all.push_back(argument);
  if (all.empty()) throw IoError("/proc/self/cmdline: cannot be read");
  all.erase(all.begin());
  return all;
}

}  // namespace lockstep::tools

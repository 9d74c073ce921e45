// What headers declare, so that a test can tell that its table leaves nothing out.
#pragma once

#include "lockstep/tests/support/regex.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace lockstep::testing {

/// The first group of `pattern` in each line of the headers in `folder` that begins with a match.
inline std::set<std::string> declared(const std::string& folder, const std::string& pattern) {
  std::set<std::string> names;
  const std::regex begin(pattern);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      std::smatch match;
      if (std::regex_search(line, match, begin, std::regex_constants::match_continuous)) {
        names.insert(match[1]);
      }
    }
  }
  return names;
}

}  // namespace lockstep::testing

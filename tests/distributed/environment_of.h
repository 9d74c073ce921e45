// An Environment of a table, for tests.
#pragma once

#include "lockstep/distributed/comm/environment.h"

#include <map>
#include <string>
#include <utility>

namespace lockstep::testing {

using Variables = std::map<std::string, std::string>;

inline Environment environment_of(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

}  // namespace lockstep::testing

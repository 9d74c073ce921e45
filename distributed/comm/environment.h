// A process's environment, as the code that reads it sees it: tests hand in their own.
#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

/// The value of a variable; nothing if it is unset or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;

inline Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

}  // namespace lockstep

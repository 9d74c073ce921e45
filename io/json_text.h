// JSON values for messages.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>

namespace lockstep {

/// `value` (of nlohmann::json or ordered_json) in one line of ASCII, cut after some 60 bytes. Of
/// what is nested only the kind is told: writing it recurses, and a file's nesting has no end.
template <class Json>
std::string json_text(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  constexpr size_t kShown = 60;
  const std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
}

}  // namespace lockstep

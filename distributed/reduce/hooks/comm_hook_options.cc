#include "lockstep/distributed/reduce/hooks/comm_hook_options.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace lockstep {

CommHookOptions::CommHookOptions(std::string hook, const std::string& text)
    : hook_(std::move(hook)) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string pair = text.substr(begin, end - begin);
    const size_t equals = pair.find('=');
    check(equals != std::string::npos && equals > 0 && equals + 1 < pair.size(), "comm hook ",
          hook_, ": wanted key=value, got '", pair, "'");
    const std::string key = pair.substr(0, equals);
    check(given_.emplace(key, pair.substr(equals + 1)).second, "comm hook ", hook_, ": ", key,
          " is given twice");
    check(end + 1 != text.size(), "comm hook ", hook_, ": wanted key=value after the last ','");
    begin = end + 1;
  }
}

const std::string* CommHookOptions::find(const std::string& key) {
  asked_.insert(key);
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

double CommHookOptions::number(const std::string& key, double fallback) {
  const std::string* text = find(key);
  if (text == nullptr) return fallback;
  double value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  check(error == std::errc() && stop == end && std::isfinite(value), "comm hook ", hook_, ": ", key,
        ": wanted a number, got '", *text, "'");
  return value;
}

std::string CommHookOptions::choice(const std::string& key,
                                    std::initializer_list<std::string> choices) {
  const std::string* text = find(key);
  if (text == nullptr) return *choices.begin();
  std::string all;
  for (const std::string& choice : choices) {
    if (*text == choice) return choice;
    all += (all.empty() ? "" : ", ") + choice;
  }
  throw ArgumentError(
      str("comm hook ", hook_, ": ", key, ": wanted one of ", all, "; got '", *text, "'"));
}

void CommHookOptions::require_all_used() const {
  for (const auto& [key, value] : given_) {
    if (asked_.contains(key)) continue;
    std::string all;
    for (const std::string& name : asked_) all += (all.empty() ? "" : ", ") + name;
    throw ArgumentError(str("comm hook ", hook_, ": there is no option '", key, "'; it has ",
                            all.empty() ? "none" : all));
  }
}

}  // namespace lockstep

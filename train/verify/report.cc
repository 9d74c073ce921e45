#include "lockstep/base/str.h"
#include "lockstep/train/verify/format.h"
#include "lockstep/train/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

namespace lockstep {
namespace {

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

}  // namespace

std::string short_number(double value) {
  if (value == 0) return "0";
  if (!std::isfinite(value)) return "infinity";
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.1e", value);
  std::string text = digits;
  const size_t exponent = text.find('e') + 2;  // behind its sign
  while (text[exponent] == '0' && exponent + 1 < text.size()) text.erase(exponent, 1);
  return text;
}

std::string VerifyReport::table() const {
  size_t width = 5;
  for (const VerifyCheck& check : checks) width = std::max(width, check.what.size());
  std::string text = str(padded("check", width), "  steps  difference  allowed  largest in\n");
  for (const VerifyCheck& check : checks) {
    text += padded(check.what, width);
    if (!check.skipped.empty()) {
      text += str("      -  not checked: ", check.skipped, "\n");
      continue;
    }
    text +=
        str("  ", right(std::to_string(check.steps), 5), "  ",
            right(short_number(check.difference), 10), "  ", right(short_number(check.allowed), 7),
            check.where.empty() ? "" : "  " + check.where, "\n");
  }
  return text;
}

}  // namespace lockstep

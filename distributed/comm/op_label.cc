#include "lockstep/distributed/comm/op_label.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace lockstep {
namespace {

thread_local const OpText* innermost = nullptr;

}  // namespace

OpText& OpText::append(std::string_view text) {
  const size_t taken = std::min(text.size(), kMost - size_);
  if (taken > 0) std::memcpy(text_.data() + size_, text.data(), taken);
  size_ = static_cast<uint8_t>(size_ + taken);
  return *this;
}

OpText& OpText::append(int64_t number) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  return append(std::string_view(digits, static_cast<size_t>(end - digits)));
}

OpLabel::OpLabel(const OpText& text) : text_(text), before_(innermost) { innermost = &text_; }

OpLabel::~OpLabel() { innermost = before_; }

const OpText& OpLabel::current() {
  static const OpText none;
  return innermost != nullptr ? *innermost : none;
}

}  // namespace lockstep

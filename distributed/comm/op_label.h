// What an operation is about: "bucket 3: layer1.0.conv1.weight ... layer1.1.bn2.bias, 12
// parameters". A group writes the label of the thread that issues an operation into its log
// (op_log.h) and into the messages about it.
//
//   const OpLabel label("evaluation");   // all that this thread issues below is about that
//   group.all_reduce(sums)->wait();
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// A short text that lies in the object itself: to write or copy one asks for no memory. What does
/// not fit is cut off.
class OpText {
 public:
  static constexpr size_t kMost = 191;  // bytes

  OpText() = default;
  explicit OpText(std::string_view text) { append(text); }

  OpText& append(std::string_view text);
  OpText& append(int64_t number);
  std::string_view view() const { return {text_.data(), size_}; }
  bool empty() const { return size_ == 0; }

 private:
  std::array<char, kMost> text_{};
  uint8_t size_ = 0;
};

/// While one lives, it is the label of what its thread issues; the innermost counts. A thread that
/// works for another one sets its own.
class [[nodiscard]] OpLabel {
 public:
  explicit OpLabel(std::string_view text) : OpLabel(OpText(text)) {}
  explicit OpLabel(const OpText& text);
  ~OpLabel();
  OpLabel(const OpLabel&) = delete;
  OpLabel& operator=(const OpLabel&) = delete;

  /// This thread's; empty: it has none.
  static const OpText& current();

 private:
  const OpText text_;
  const OpText* const before_;
};

}  // namespace lockstep

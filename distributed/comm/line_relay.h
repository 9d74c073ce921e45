// LineRelay: the output of one rank on its way from a pipe to the console or a file, line by line.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::comm {

class LineRelay {
 public:
  /// Writes to `fd`, which stays the caller's, with `prefix` before each line.
  LineRelay(int fd, std::string prefix) : fd_(fd), prefix_(std::move(prefix)) {}

  void add(std::string_view bytes);
  /// The end of the output: a last line without an end gets one.
  void finish();
  /// The last line that was not blank; what a carriage return has overwritten is left out.
  const std::string& last_line() const { return last_line_; }

 private:
  void take_line(std::string_view line);

  int fd_;
  std::string prefix_;
  std::string partial_;
  std::string last_line_;
};

}  // namespace lockstep::comm

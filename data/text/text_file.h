// Plain text files: UTF-8, a sentence or paragraph in each line, an empty line between documents.
#pragma once

#include "lockstep/io/mapped_file.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// A text file, mapped. Lines may be of any length.
class TextFile {
 public:
  /// Throws IoError when it cannot be read, is empty or no UTF-8; names the line and the byte then.
  explicit TextFile(std::string path);

  const std::string& path() const { return file_.path(); }
  std::string_view text() const { return text_; }
  /// "corpus.txt:17", for messages.
  std::string place(int64_t line) const;

  /// Calls `line(std::string_view text, int64_t number)` for each, numbers from 1; without the line
  /// end, "\n" or "\r\n".
  template <class Line>
  void for_each_line(Line&& line) const {
    std::string_view rest = text_;
    for (int64_t number = 1; !rest.empty(); ++number) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string_view one = rest.substr(0, end);
      if (one.ends_with('\r')) one.remove_suffix(1);
      line(one, number);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }

 private:
  MappedFile file_;
  std::string_view text_;  // without a byte order mark
};

/// Nothing but spaces, tabs and the like.
bool is_blank(std::string_view line);

}  // namespace lockstep

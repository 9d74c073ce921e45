#include "lockstep/data/text/text_file.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/utf8.h"

#include <utility>

namespace lockstep {

TextFile::TextFile(std::string path) : file_(std::move(path)) {
  const auto bytes = file_.bytes();
  text_ = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  if (text_.empty()) throw IoError(str("text: ", file_.path(), ": wanted text, got an empty file"));
  if (const auto at = invalid_utf8_at(text_)) {
    const auto line =
        1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(*at), '\n');
    throw IoError(str("text: ", place(line), ": wanted UTF-8, got ",
                      quote_text(text_.substr(*at, 1)), " at byte ", *at,
                      "; 'iconv -f latin1 -t utf-8' converts Latin-1"));
  }
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
}

std::string TextFile::place(int64_t line) const { return str(file_.path(), ":", line); }

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n\v\f") == line.npos; }

}  // namespace lockstep

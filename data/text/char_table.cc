#include "lockstep/data/text/char_table.h"

#include "lockstep/data/text/utf8.h"

#include <utf8proc.h>

#include <algorithm>
#include <map>

namespace lockstep {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

int combining_class(char32_t c) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
}

}  // namespace

bool CharTable::is_mark(char32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool CharTable::is_punctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  }
  switch (category(c)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    default:
      return false;
  }
}

bool CharTable::is_space(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return true;
  const utf8proc_category_t k = category(c);
  return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

bool CharTable::is_dropped(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c == kReplacementCharacter) return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return true;
    default:
      return false;
  }
}

bool CharTable::is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

int CharTable::lower_of(char32_t c, char32_t* to) const {
  to[0] = c;
  if (!options_.lower_case) return 1;
  if (c == 0x130) {  // the one letter whose lower case is two code points
    to[0] = 'i';
    to[1] = 0x307;
    return 2;
  }
  to[0] = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  return 1;
}

void CharTable::decompose(char32_t c, std::vector<Decomposed>& to) const {
  if (!options_.strip_accents) {
    to.push_back({c, 0});
    return;
  }
  utf8proc_int32_t parts[8];
  int last_class = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 8,
                                                         UTF8PROC_DECOMPOSE, &last_class);
  for (utf8proc_ssize_t i = 0; i < count && i < 8; ++i) {
    const auto part = static_cast<char32_t>(parts[i]);
    to.push_back({part, combining_class(part)});
  }
}

void CharTable::order_marks(std::vector<Decomposed>& run) {
  const auto is_starter = [](const Decomposed& d) { return d.combining_class == 0; };
  for (auto begin = run.begin(); begin != run.end();) {
    begin = std::find_if_not(begin, run.end(), is_starter);
    const auto end = std::find_if(begin, run.end(), is_starter);
    std::stable_sort(begin, end, [](const Decomposed& a, const Decomposed& b) {
      return a.combining_class < b.combining_class;
    });
    begin = end;
  }
}

uint32_t CharTable::keep_text(std::string_view bytes, uint32_t chars) {
  const auto at = static_cast<uint32_t>(texts_.size());
  texts_ += static_cast<char>(bytes.size());
  texts_ += static_cast<char>(chars);
  texts_ += bytes;
  return at;
}

CharEntry CharTable::entry_of(char32_t c, std::vector<Decomposed>& scratch) {
  if (is_dropped(c)) return {CharKind::kDrop};
  if (is_space(c)) return {CharKind::kSpace};
  scratch.clear();
  decompose(c, scratch);
  char text[64];
  uint32_t bytes = 0, chars = 0, punctuation = 0;
  bool kept_mark = false;
  for (const Decomposed& d : scratch) {
    if (options_.strip_accents && is_mark(d.code_point)) continue;
    kept_mark = kept_mark || d.combining_class != 0;
    char32_t lower[2];
    const int count = lower_of(d.code_point, lower);
    for (int i = 0; i < count; ++i) {
      punctuation += is_punctuation(lower[i]);
      bytes += encode_utf8(lower[i], text + bytes);
      ++chars;
    }
  }
  char itself[4];
  const bool same =
      std::string_view(text, bytes) == std::string_view(itself, encode_utf8(c, itself));
  if (is_ideograph(c)) return {CharKind::kIdeograph, same ? 0 : keep_text({text, bytes}, chars)};
  if (chars == 0) {
    const bool starter = !scratch.empty() && scratch[0].combining_class == 0;
    return {starter ? CharKind::kDropStarter : CharKind::kDrop};
  }
  if (kept_mark || (punctuation > 0 && !same)) return {CharKind::kSlow};
  if (punctuation > 0) return {CharKind::kPunctuation};
  if (same) return {CharKind::kLetter};
  return {CharKind::kMapped, keep_text({text, bytes}, chars)};
}

CharTable::CharTable(CaseOptions options) : options_(options), texts_(2, '\0') {
  std::vector<Decomposed> scratch;
  std::map<std::vector<uint64_t>, uint16_t> known;
  std::vector<uint64_t> key(256);
  for (char32_t first = 0; first < 0x110000; first += 256) {
    Page page;
    for (char32_t i = 0; i < 256; ++i) {
      const char32_t c = first + i;
      const bool surrogate = c >= 0xD800 && c < 0xE000;  // decode_utf8() gives none
      page[i] = surrogate ? CharEntry{CharKind::kDrop} : entry_of(c, scratch);
      key[i] = uint64_t{page[i].text} << 8 | static_cast<uint64_t>(page[i].kind);
    }
    const auto [at, added] = known.try_emplace(key, static_cast<uint16_t>(pages_.size()));
    if (added) pages_.push_back(page);
    page_of_[first >> 8] = at->second;
  }
  for (char32_t c = 0; c < 128; ++c) {
    const CharEntry entry = (*this)[c];
    ascii_[c] = entry.kind == CharKind::kDrop          ? kAsciiDrop
                : entry.kind == CharKind::kSpace       ? kAsciiSpace
                : entry.kind == CharKind::kPunctuation ? kAsciiPunctuation
                : entry.kind == CharKind::kMapped ? static_cast<uint8_t>(mapped(entry).bytes[0])
                                                  : static_cast<uint8_t>(c);
  }
}

const CharTable& CharTable::get(CaseOptions options) {
  static const auto make = [](bool lower, bool strip) {
    return CharTable({.lower_case = lower, .strip_accents = strip});
  };
  if (options.lower_case && options.strip_accents) {
    static const CharTable table = make(true, true);
    return table;
  }
  if (options.lower_case) {
    static const CharTable table = make(true, false);
    return table;
  }
  if (options.strip_accents) {
    static const CharTable table = make(false, true);
    return table;
  }
  static const CharTable table = make(false, false);
  return table;
}

}  // namespace lockstep

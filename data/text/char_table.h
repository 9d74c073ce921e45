// What BERT's normaliser makes of each code point, looked up in one step.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

enum class CharKind : uint8_t {
  kLetter,       // part of a word, as it is
  kDrop,         // leaves no trace
  kDropStarter,  // the same, but marks on its two sides are not put in order across it
  kSpace,
  kPunctuation,  // a word of its own, as it is
  kIdeograph,    // a word of its own; mapped(), or as it is when that is empty
  kMapped,       // mapped() is part of a word
  kSlow,         // marks to be put in order, or an exception: normalize_run()
};

struct CharEntry {
  CharKind kind = CharKind::kLetter;
  uint32_t text = 0;  // where the text lies
};

struct CaseOptions {
  bool lower_case = true;
  bool strip_accents = true;
};

class CharTable {
 public:
  // What an ASCII byte becomes: a byte of a word, or one of these.
  static constexpr uint8_t kAsciiDrop = 0, kAsciiSpace = 1, kAsciiPunctuation = 2;
  struct Text {
    std::string_view bytes;
    uint32_t chars;
  };

  /// The one table for these options: made at its first use (some 20 ms), kept.
  static const CharTable& get(CaseOptions options);

  CaseOptions options() const { return options_; }
  uint8_t ascii(uint8_t byte) const { return ascii_[byte]; }
  /// Of a code point up to U+10FFFF.
  CharEntry operator[](char32_t c) const { return pages_[page_of_[c >> 8]][c & 0xFF]; }
  Text mapped(CharEntry entry) const {
    const auto* p = reinterpret_cast<const uint8_t*>(texts_.data()) + entry.text;
    return {{texts_.data() + entry.text + 2, p[0]}, p[1]};
  }

  struct Decomposed {
    char32_t code_point;
    int combining_class;
  };
  /// Appends `c` decomposed (NFD, without order of marks); `c` itself when accents are kept.
  void decompose(char32_t c, std::vector<Decomposed>& to) const;
  /// Puts the marks in `run` in order and calls `letter(c)` and `punctuation(c)` for what remains
  /// of it.
  template <class Letter, class Punctuation>
  void normalize_run(std::vector<Decomposed>& run, Letter&& letter,
                     Punctuation&& punctuation) const {
    order_marks(run);
    for (const Decomposed& d : run) {
      if (options_.strip_accents && is_mark(d.code_point)) continue;
      char32_t lower[2];
      const int count = lower_of(d.code_point, lower);
      for (int i = 0; i < count; ++i) {
        is_punctuation(lower[i]) ? punctuation(lower[i]) : letter(lower[i]);
      }
    }
  }

  static bool is_mark(char32_t c);  // Mn
  static bool is_punctuation(char32_t c);
  static bool is_dropped(char32_t c);  // by cleaning
  static bool is_space(char32_t c);
  static bool is_ideograph(char32_t c);

 private:
  explicit CharTable(CaseOptions options);
  CharEntry entry_of(char32_t c, std::vector<Decomposed>& scratch);
  int lower_of(char32_t c, char32_t* to) const;
  static void order_marks(std::vector<Decomposed>& run);
  uint32_t keep_text(std::string_view bytes, uint32_t chars);

  using Page = std::array<CharEntry, 256>;
  CaseOptions options_;
  std::array<uint8_t, 128> ascii_{};
  std::array<uint16_t, 0x1100> page_of_{};
  std::vector<Page> pages_;  // equal pages are stored once
  std::string texts_;        // each: its bytes, its characters, the text
};

}  // namespace lockstep

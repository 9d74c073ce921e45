// BERT's cleaning and pre-tokenisation (Devlin et al. 2019, the code published with it, and Hugging
// Face's BertNormalizer and BertPreTokenizer): from text to the words that WordPiece cuts up.
#pragma once

#include "lockstep/data/text/char_table.h"
#include "lockstep/data/text/utf8.h"

#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

namespace lockstep {

constexpr uint32_t kMaxWordChars = 100;  // longer words are [UNK]

/// Calls `emit(std::string_view word)` for each word of `text`, normalised; for one of more than
/// kMaxWordChars code points with an empty view. The words lie in a buffer that the next one
/// overwrites. What is no UTF-8 counts as U+FFFD, which cleaning drops. Reads the text once and
/// allocates nothing but in a run of marks that has to be put in order.
template <class Emit>
class WordSplitter {
 public:
  WordSplitter(const CharTable& table, Emit& emit) : table_(table), emit_(emit) {}

  void run(std::string_view text) {
    const char* p = text.data();
    const char* const end = p + text.size();
    while (p < end) {
      const auto byte = static_cast<uint8_t>(*p);
      if (byte >= 0x80) {
        p = other(p, end);
        continue;
      }
      ++p;
      const uint8_t c = table_.ascii(byte);
      if (c > CharTable::kAsciiPunctuation) [[likely]] {
        if (chars_ < kMaxWordChars) word_[size_++] = static_cast<char>(c);
        ++chars_;
      } else if (c == CharTable::kAsciiSpace) {
        finish();
      } else if (c == CharTable::kAsciiPunctuation) {
        alone({p - 1, 1});
      }
    }
    finish();
  }

 private:
  const char* other(const char* p, const char* end) {
    const DecodedChar c = decode_utf8(p, end);
    const CharEntry entry = table_[c.code_point];
    const std::string_view itself(p, c.bytes);
    switch (entry.kind) {
      case CharKind::kLetter:
        add(itself, 1);
        break;
      case CharKind::kMapped: {
        const CharTable::Text text = table_.mapped(entry);
        add(text.bytes, text.chars);
        break;
      }
      case CharKind::kSpace:
        finish();
        break;
      case CharKind::kPunctuation:
        alone(itself);
        break;
      case CharKind::kIdeograph:
        alone(entry.text == 0 ? itself : table_.mapped(entry).bytes);
        break;
      case CharKind::kSlow:
        return slow(p, end);
      case CharKind::kDrop:
      case CharKind::kDropStarter:
        break;
    }
    return p + c.bytes;
  }

  /// From a code point that leaves a mark to the next one that marks do not move across.
  const char* slow(const char* p, const char* end) {
    DecodedChar c = decode_utf8(p, end);
    std::vector<CharTable::Decomposed> run;
    table_.decompose(c.code_point, run);
    for (p += c.bytes; p < end; p += c.bytes) {
      c = decode_utf8(p, end);
      const CharKind kind = table_[c.code_point].kind;
      if (kind == CharKind::kDrop) continue;
      if (kind != CharKind::kSlow) break;
      const size_t before = run.size();
      table_.decompose(c.code_point, run);
      if (run[before].combining_class == 0) {
        run.resize(before);
        break;
      }
    }
    char text[4];
    table_.normalize_run(
        run,
        [&](char32_t one) {
          add({text, encode_utf8(one, text)}, 1);
        },
        [&](char32_t one) {
          alone({text, encode_utf8(one, text)});
        });
    return p;
  }

  void add(std::string_view bytes, uint32_t chars) {
    if (chars_ + chars <= kMaxWordChars) {
      std::memcpy(word_ + size_, bytes.data(), bytes.size());
      size_ += static_cast<uint32_t>(bytes.size());
    }
    chars_ += chars;
  }

  void alone(std::string_view word) {
    finish();
    emit_(word);
  }

  void finish() {
    if (chars_ == 0) return;
    emit_(chars_ <= kMaxWordChars ? std::string_view(word_, size_) : std::string_view());
    size_ = 0;
    chars_ = 0;
  }

  const CharTable& table_;
  Emit& emit_;
  char word_[4 * kMaxWordChars];
  uint32_t size_ = 0;
  uint64_t chars_ = 0;  // also those beyond the buffer
};

template <class Emit>
void split_words(std::string_view text, const CharTable& table, Emit&& emit) {
  WordSplitter<std::remove_reference_t<Emit>>(table, emit).run(text);
}

}  // namespace lockstep

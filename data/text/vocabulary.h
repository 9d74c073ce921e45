// The tokens of a WordPiece vocabulary and their numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

/// Immutable; copies share the tokens. A token's id is its place, from 0. A token that continues a
/// word begins with "##".
class Vocabulary {
 public:
  static constexpr const char* kPad = "[PAD]";
  static constexpr const char* kUnknown = "[UNK]";
  static constexpr const char* kClassify = "[CLS]";
  static constexpr const char* kSeparator = "[SEP]";
  static constexpr const char* kMask = "[MASK]";

  /// Throws ArgumentError for a token that is there twice, empty, no UTF-8, longer than 1,000
  /// bytes or with a line feed; when one of the five special tokens is missing; and for more than
  /// 2^24 tokens.
  explicit Vocabulary(const std::vector<std::string>& tokens);

  /// From BERT's vocab.txt: a token in each line. Throws IoError, with the line, as the constructor
  /// does, and for a file of more than 1 GiB.
  static Vocabulary read(const std::string& path);
  /// The same of a file's contents; messages call it `name`.
  static Vocabulary parse(std::string_view text, const std::string& name);
  /// Writes vocab.txt, whole or not at all. Throws IoError.
  void write(const std::string& path) const;

  int64_t size() const;
  /// 0 <= id < size(). The view lives as long as a copy of this vocabulary.
  std::string_view token(int64_t id) const;
  std::optional<int32_t> find(std::string_view token) const;

  int32_t pad() const;
  int32_t unknown() const;
  int32_t classify() const;   // [CLS]
  int32_t separator() const;  // [SEP]
  int32_t mask() const;
  bool is_special(int32_t id) const;
  /// Whether `id` continues a word: its token begins with "##".
  bool continues_word(int32_t id) const;

  /// Of all tokens in order: what was tokenised with one vocabulary is told from another's.
  uint64_t hash() const;

 private:
  struct Data;
  explicit Vocabulary(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  std::shared_ptr<const Data> data_;
};

}  // namespace lockstep

#include "lockstep/data/text/labelled_text.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/utf8.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>

namespace lockstep {
namespace {

/// The most classes that integers as labels may ask for.
constexpr int64_t kMostClasses = 1 << 20;

std::optional<int64_t> integer(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> classes_in(const std::vector<LabelledLine>& lines,
                                    const std::string& path) {
  int64_t most = -1;
  bool integers = true;
  std::set<std::string> names;
  for (const LabelledLine& line : lines) {
    const auto value = integer(line.label);
    integers = integers && value && *value >= 0 && std::to_string(*value) == line.label;
    if (value) most = std::max(most, *value);
    names.insert(line.label);
  }
  if (!integers) return {names.begin(), names.end()};
  if (most >= kMostClasses) {
    throw IoError(str("text: ", path, ": wanted labels below ", kMostClasses, ", got ", most));
  }
  std::vector<std::string> numbers;
  for (int64_t i = 0; i <= most; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < names.size() && i < kShown; ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return names.size() > kShown ? str(text, ", ... (", names.size(), ")") : text;
}

/// The sequence, with `a` and `b` cut to what fits.
void assemble(const Vocabulary& vocabulary, int64_t max_seq_length, std::span<const int32_t> a,
              std::optional<std::span<const int32_t>> b, TextExample& example) {
  example.clear();
  size_t first = a.size(), second = b ? b->size() : 0;
  const size_t room = static_cast<size_t>(max_seq_length) - (b ? 3 : 2);
  if (first + second > room) {  // the longer one gives, down to the other's length, then both
    if (second <= room / 2) {
      first = room - second;
    } else if (first <= room - room / 2) {
      second = room - first;
    } else {
      first = room - room / 2;
      second = room / 2;
    }
  }
  example.ids.push_back(vocabulary.classify());
  example.ids.insert(example.ids.end(), a.begin(), a.begin() + static_cast<ptrdiff_t>(first));
  example.ids.push_back(vocabulary.separator());
  if (!b) return;
  example.types.assign(example.ids.size(), 0);
  example.ids.insert(example.ids.end(), b->begin(), b->begin() + static_cast<ptrdiff_t>(second));
  example.ids.push_back(vocabulary.separator());
  example.types.resize(example.ids.size(), 1);
}

class LabelledText final : public TextDataset {
 public:
  LabelledText(const LabelledTextOptions& options, const WordPiece& tokenizer)
      : vocabulary_(tokenizer.vocabulary()),
        class_names_(options.class_names),
        max_seq_length_(options.max_seq_length) {
    const std::vector<LabelledLine> lines = read_labelled_text(options.path);
    if (class_names_.empty()) class_names_ = classes_in(lines, options.path);
    std::unordered_map<std::string, int32_t> numbers;  // there may be as many as texts
    for (size_t i = 0; i < class_names_.size(); ++i) {
      numbers.emplace(class_names_[i], static_cast<int32_t>(i));
    }
    ends_.push_back(0);
    for (const LabelledLine& line : lines) {
      const auto at = numbers.find(line.label);
      if (at == numbers.end()) {
        throw IoError(str("text: ", options.path, ":", line.line, ": wanted one of the labels ",
                          listed(class_names_), ", got ", quote_text(line.label)));
      }
      labels_.push_back(at->second);
      pairs_ = pairs_ || line.text_b.has_value();
      tokenizer.encode(line.text_a, ids_);
      ends_.push_back(static_cast<int64_t>(ids_.size()));
      if (line.text_b) tokenizer.encode(*line.text_b, ids_);
      ends_.push_back(static_cast<int64_t>(ids_.size()));
    }
  }

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t max_seq_length() const override { return max_seq_length_; }
  int32_t pad_id() const override { return vocabulary_.pad(); }
  int64_t classes() const override { return static_cast<int64_t>(class_names_.size()); }
  std::vector<std::string> class_names() const override { return class_names_; }

  void get(int64_t /*epoch*/, int64_t index, TextExample& example) const override {
    const auto i = static_cast<size_t>(index);
    const auto part = [&](size_t k) {
      return std::span(ids_).subspan(static_cast<size_t>(ends_[k]),
                                     static_cast<size_t>(ends_[k + 1] - ends_[k]));
    };
    assemble(vocabulary_, max_seq_length_, part(2 * i),
             pairs_ ? std::optional(part(2 * i + 1)) : std::nullopt, example);
    example.label = labels_.at(i);
  }

 private:
  Vocabulary vocabulary_;
  std::vector<std::string> class_names_;
  int64_t max_seq_length_;
  bool pairs_ = false;
  std::vector<int32_t> ids_;   // of all texts
  std::vector<int64_t> ends_;  // 0, then where each text ends: A, B, A, B, ...
  std::vector<int32_t> labels_;
};

void check_length(const char* caller, int64_t max_seq_length) {
  check(max_seq_length >= 8, caller, ": wanted sequences of at least 8 tokens, got ",
        max_seq_length);
}

}  // namespace

std::shared_ptr<const TextDataset> labelled_text(const LabelledTextOptions& options,
                                                 const WordPiece& tokenizer) {
  check_length("labelled_text", options.max_seq_length);
  return std::make_shared<LabelledText>(options, tokenizer);
}

std::vector<TextExample> text_examples(const std::vector<std::string>& text_a,
                                       const std::vector<std::string>& text_b,
                                       const WordPiece& tokenizer, int64_t max_seq_length) {
  check_length("text_examples", max_seq_length);
  check(text_b.empty() || text_b.size() == text_a.size(), "text_examples: wanted ", text_a.size(),
        " second texts or none, got ", text_b.size());
  std::vector<TextExample> examples(text_a.size());
  std::vector<int32_t> a, b;
  for (size_t i = 0; i < text_a.size(); ++i) {
    a.clear();
    b.clear();
    tokenizer.encode_with_special(text_a[i], a);
    if (!text_b.empty()) tokenizer.encode_with_special(text_b[i], b);
    using Ids = std::span<const int32_t>;
    assemble(tokenizer.vocabulary(), max_seq_length, a,
             text_b.empty() ? std::nullopt : std::optional<Ids>(b), examples[i]);
  }
  return examples;
}

}  // namespace lockstep

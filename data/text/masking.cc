#include "lockstep/data/text/masking.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/draws.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace lockstep {
namespace {

constexpr int64_t kSpecialTokens = 5;

/// Uniform over the tokens that are not special.
int32_t random_token(const Vocabulary& vocabulary, Draws& draws) {
  std::array special = {vocabulary.pad(), vocabulary.unknown(), vocabulary.classify(),
                        vocabulary.separator(), vocabulary.mask()};
  std::sort(special.begin(), special.end());
  auto id = static_cast<int32_t>(draws.below(vocabulary.size() - kSpecialTokens));
  for (const int32_t s : special) id += id >= s;
  return id;
}

struct Span {
  int32_t begin, end;
};

/// What is chosen together: words, or each token alone.
std::vector<Span> units_of(const Vocabulary& vocabulary, bool whole_words,
                           const std::vector<int32_t>& ids) {
  std::vector<Span> units;
  for (int32_t i = 0; i < static_cast<int32_t>(ids.size()); ++i) {
    const int32_t id = ids[static_cast<size_t>(i)];
    if (vocabulary.is_special(id)) continue;
    if (whole_words && !units.empty() && units.back().end == i && vocabulary.continues_word(id)) {
      ++units.back().end;
    } else {
      units.push_back({i, i + 1});
    }
  }
  return units;
}

}  // namespace

void check_masking(const Vocabulary& vocabulary, const MaskingOptions& options) {
  check(options.mlm_probability >= 0 && options.mlm_probability < 1,
        "masking: wanted a share of masked tokens in [0, 1), got ", options.mlm_probability);
  check(vocabulary.size() > kSpecialTokens,
        "masking: wanted a vocabulary with other than special tokens, got ", vocabulary.size(),
        " tokens");
}

int64_t most_masked(int64_t max_seq_length, double mlm_probability) {
  // [CLS] and [SEP] are never chosen.
  const auto tokens = static_cast<double>(max_seq_length - 2);
  return mlm_probability == 0 ? 0 : std::max(int64_t{1}, std::lround(tokens * mlm_probability));
}

void mask_tokens(const Vocabulary& vocabulary, const MaskingOptions& options, uint64_t seed,
                 int64_t epoch, int64_t index, TextExample& example) {
  example.masked_positions.clear();
  example.masked_labels.clear();
  if (options.mlm_probability == 0) return;
  Draws draws(seed, RandomPurpose::kMask, epoch, index);
  std::vector<Span> units = units_of(vocabulary, options.whole_word_mask, example.ids);
  int64_t tokens = 0;
  for (const Span& unit : units) tokens += unit.end - unit.begin;
  const int64_t wanted =
      std::max(int64_t{1}, std::lround(static_cast<double>(tokens) * options.mlm_probability));
  int64_t chosen = 0;
  for (size_t i = 0; i < units.size() && chosen < wanted; ++i) {  // Fisher-Yates, as far as needed
    const auto j = static_cast<size_t>(draws.below(static_cast<int64_t>(units.size() - i)));
    std::swap(units[i], units[i + j]);
    const int64_t length = units[i].end - units[i].begin;
    if (chosen > 0 && chosen + length > wanted) continue;
    chosen += length;
    for (int32_t at = units[i].begin; at < units[i].end; ++at)
      example.masked_positions.push_back(at);
  }
  std::sort(example.masked_positions.begin(), example.masked_positions.end());
  for (const int32_t at : example.masked_positions) {
    int32_t& id = example.ids[static_cast<size_t>(at)];
    example.masked_labels.push_back(id);
    const float kind = draws.uniform();
    if (kind < 0.8f) {
      id = vocabulary.mask();
    } else if (kind < 0.9f) {
      id = random_token(vocabulary, draws);
    }
  }
}

}  // namespace lockstep

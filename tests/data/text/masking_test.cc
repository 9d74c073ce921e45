#include "lockstep/data/text/masking.h"

#include "lockstep/tests/data/text/small_vocabulary.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace lockstep;
using namespace lockstep::testing;

namespace {

TextExample example_of(int words) {
  const WordPiece tokenizer = small_tokenizer();
  TextExample example;
  example.ids.push_back(tokenizer.vocabulary().classify());
  for (int i = 0; i < words; ++i) {
    tokenizer.encode(i % 3 == 0 ? "unaffable" : i % 3 == 1 ? "word" : "wording", example.ids);
    if (i % 5 == 0) example.ids.push_back(tokenizer.vocabulary().unknown());
  }
  example.ids.push_back(tokenizer.vocabulary().separator());
  return example;
}

}  // namespace

TEST_CASE("15 % are chosen: 80 % [MASK], 10 % random, 10 % as they are") {
  const Vocabulary vocabulary = small_vocabulary();
  const TextExample original = example_of(60);
  int64_t tokens = 0, chosen = 0, masked = 0, kept = 0, other = 0;
  std::map<int32_t, int64_t> random;
  std::set<int32_t> places;
  for (int64_t index = 0; index < 4000; ++index) {
    TextExample example = original;
    mask_tokens(vocabulary, {}, 1, 0, index, example);
    REQUIRE(example.masked_positions.size() == example.masked_labels.size());
    int64_t eligible = 0;
    for (const int32_t id : original.ids) eligible += !vocabulary.is_special(id);
    REQUIRE(static_cast<int64_t>(example.masked_positions.size()) ==
            std::llround(static_cast<double>(eligible) * 0.15));
    REQUIRE(std::is_sorted(example.masked_positions.begin(), example.masked_positions.end()));
    std::vector<int32_t> restored = example.ids;
    for (size_t i = 0; i < example.masked_positions.size(); ++i) {
      const auto at = static_cast<size_t>(example.masked_positions[i]);
      const int32_t id = example.ids[at], label = example.masked_labels[i];
      REQUIRE(!vocabulary.is_special(label));
      places.insert(static_cast<int32_t>(at));
      restored[at] = label;
      masked += id == vocabulary.mask();
      kept += id == label;
      if (id != vocabulary.mask() && id != label) {
        REQUIRE(!vocabulary.is_special(id));
        ++random[id];
        ++other;
      }
    }
    REQUIRE(restored == original.ids);
    tokens += eligible;
    chosen += static_cast<int64_t>(example.masked_positions.size());
  }
  CHECK(places.size() == static_cast<size_t>(tokens / 4000));  // each of them some time
  const auto share = [&](int64_t n) {
    return static_cast<double>(n) / static_cast<double>(chosen);
  };
  // Over 60,000 draws: four standard deviations are below 0.007.
  CHECK(share(masked) == doctest::Approx(0.8).epsilon(0.01));
  CHECK(share(other) == doctest::Approx(0.1).epsilon(0.07));
  CHECK(share(kept) == doctest::Approx(0.1).epsilon(0.07));
  // All tokens but the five special ones, equally often.
  CHECK(random.size() == static_cast<size_t>(vocabulary.size() - 5));
  const double mean = static_cast<double>(other) / static_cast<double>(random.size());
  double chi2 = 0;
  for (const auto& [id, count] : random)
    chi2 += std::pow(static_cast<double>(count) - mean, 2) / mean;
  CHECK(chi2 < 2 * static_cast<double>(random.size()));
}

TEST_CASE("whole words are masked whole") {
  const Vocabulary vocabulary = small_vocabulary();
  const TextExample original = example_of(60);
  int64_t chosen = 0, eligible = 0;
  for (int64_t index = 0; index < 500; ++index) {
    TextExample example = original;
    mask_tokens(vocabulary, {.whole_word_mask = true}, 1, 0, index, example);
    const std::set<int32_t> at(example.masked_positions.begin(), example.masked_positions.end());
    for (int32_t i = 1; i < static_cast<int32_t>(original.ids.size()); ++i) {
      if (!vocabulary.continues_word(original.ids[static_cast<size_t>(i)])) continue;
      REQUIRE(at.contains(i) == at.contains(i - 1));
    }
    chosen += static_cast<int64_t>(at.size());
    for (const int32_t id : original.ids) eligible += !vocabulary.is_special(id);
  }
  CHECK(static_cast<double>(chosen) / static_cast<double>(eligible) ==
        doctest::Approx(0.15).epsilon(0.02));
}

TEST_CASE("masks depend on seed, epoch and index alone") {
  const Vocabulary vocabulary = small_vocabulary();
  const auto masks = [&](uint64_t seed, int64_t epoch, int64_t index) {
    TextExample example = example_of(60);
    mask_tokens(vocabulary, {}, seed, epoch, index, example);
    return example.ids;
  };
  CHECK(masks(1, 2, 3) == masks(1, 2, 3));
  CHECK(masks(1, 2, 3) != masks(2, 2, 3));
  CHECK(masks(1, 2, 3) != masks(1, 3, 3));
  CHECK(masks(1, 2, 3) != masks(1, 2, 4));
  CHECK(masks(1, 2, 3) != masks(1, 3, 2));
}

TEST_CASE("masking at its edges") {
  const Vocabulary vocabulary = small_vocabulary();
  TextExample example = example_of(60);
  mask_tokens(vocabulary, {.mlm_probability = 0}, 1, 0, 0, example);
  CHECK(example.ids == example_of(60).ids);
  CHECK(example.masked_positions.empty());
  example = example_of(0);  // [CLS] [SEP]
  mask_tokens(vocabulary, {}, 1, 0, 0, example);
  CHECK(example.masked_positions.empty());
  CHECK(example.ids == example_of(0).ids);
  example.clear();
  example.ids = {vocabulary.classify(), 0, vocabulary.separator()};
  mask_tokens(vocabulary, {}, 1, 0, 0, example);  // one token: it is chosen
  CHECK(example.masked_positions == std::vector<int32_t>{1});
  CHECK(example.masked_labels == std::vector<int32_t>{0});
  CHECK_THROWS_AS(check_masking(vocabulary, {.mlm_probability = 1}), ArgumentError);
  CHECK_THROWS_AS(check_masking(vocabulary, {.mlm_probability = -0.1}), ArgumentError);
  CHECK_THROWS_AS(check_masking(Vocabulary({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}), {}),
                  ArgumentError);
}

#include "lockstep/data/text/train_vocabulary.h"

#include "lockstep/tests/data/text/small_vocabulary.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <random>

using namespace lockstep;
using namespace lockstep::testing;

namespace {

std::vector<std::string> tokens_of(const Vocabulary& vocabulary) {
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < vocabulary.size(); ++i) tokens.emplace_back(vocabulary.token(i));
  return tokens;
}

}  // namespace

TEST_CASE("the pair that is there most often is joined first") {
  const TempDir dir;
  // hug 10, pug 5, pun 12, bun 4, hugs 5: (##u, ##g) 20, then (##u, ##n) 16, then (h, ##ug) 15.
  std::string text;
  for (const auto& [word, times] : std::vector<std::pair<std::string, int>>{
           {"hug", 10}, {"pug", 5}, {"pun", 12}, {"bun", 4}, {"hugs", 5}}) {
    for (int i = 0; i < times; ++i) text += word + " ";
  }
  write_file(dir / "a.txt", text);
  const auto vocabulary = train_vocabulary({dir / "a.txt"}, {.size = 19});
  CHECK(tokens_of(vocabulary) ==
        std::vector<std::string>{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "b", "g", "h", "n",
                                 "p", "s", "u", "##g", "##n", "##s", "##u", "##ug", "##un", "hug"});
  // To the end: no pair is left.
  const auto all = train_vocabulary({dir / "a.txt"}, {.size = 1000});
  CHECK(all.size() < 30);
  for (const char* word : {"hug", "pug", "pun", "bun", "hugs"}) CHECK(all.find(word));
  CHECK(!train_vocabulary({dir / "a.txt"}, {.size = 1000, .min_frequency = 6}).find("hugs"));
  CHECK(has(error_of([&] { train_vocabulary({dir / "a.txt"}, {.size = 15}); }),
            "wanted a size of at least 16"));
}

TEST_CASE("of pairs that are there equally often the one of earlier tokens comes first") {
  const TempDir dir;
  write_file(dir / "a.txt", "cd ab cd ab");
  const auto vocabulary = train_vocabulary({dir / "a.txt"}, {.size = 12});
  CHECK(vocabulary.token(11) == "ab");
}

TEST_CASE("the same bytes whatever the order of the lines") {
  const TempDir dir;
  std::mt19937 random(3);
  std::vector<std::string> lines;
  for (int i = 0; i < 2000; ++i) {
    std::string line;
    for (int w = 0; w < 8; ++w) {
      for (unsigned c = 0; c < 1 + random() % 5; ++c) line += static_cast<char>('a' + random() % 5);
      line += ' ';
    }
    lines.push_back(line + "\n");
  }
  const auto train = [&] {
    std::string text;
    for (const std::string& line : lines) text += line;
    write_file(dir / "a.txt", text);
    return tokens_of(train_vocabulary({dir / "a.txt"}, {.size = 500}));
  };
  const auto first = train();
  CHECK(first.size() == 500);
  std::shuffle(lines.begin(), lines.end(), random);
  CHECK(train() == first);
}

TEST_CASE("case, accents and the alphabet's limit") {
  const TempDir dir;
  write_file(dir / "a.txt", "Caf\xC3\xA9 CAF\xC3\xA9 caf\xC3\xA9 cafe q");
  const auto has_token = [&](const VocabularyOptions& options, const char* token) {
    return train_vocabulary({dir / "a.txt"}, options).find(token).has_value();
  };
  CHECK(has_token({}, "cafe"));
  CHECK(!has_token({}, "Caf"));
  CHECK(has_token({.words = {.lower_case = false}, .min_frequency = 1}, "Caf\xC3\xA9"));
  CHECK(has_token({.words = {.lower_case = true, .strip_accents = false}}, "caf\xC3\xA9"));
  CHECK(has_token({}, "q"));
  CHECK(!has_token({.alphabet_limit = 4}, "q"));
  CHECK(has_token({.alphabet_limit = 4}, "cafe"));
}

TEST_CASE("what trains a vocabulary is tokenised with it without [UNK]") {
  const TempDir dir;
  write_file(dir / "a.txt", "the quick brown fox\njumps over the lazy dog\n");
  const WordPiece tokenizer(train_vocabulary({dir / "a.txt"}, {.size = 60}));
  for (const int32_t id : tokenizer.encode("quick lazy dog over fox")) {
    CHECK(id != tokenizer.vocabulary().unknown());
  }
  write_file(dir / "b.txt", "\n \n");
  CHECK(has(error_of([&] { train_vocabulary({dir / "b.txt"}, {}); }), "got no word in it"));
  CHECK_THROWS_AS(train_vocabulary({}, {}), ArgumentError);
  CHECK_THROWS_AS(train_vocabulary({dir / "a.txt"}, {.min_frequency = 0}), ArgumentError);
}

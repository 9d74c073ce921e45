#include "lockstep/data/text/word_piece.h"

#include "lockstep/tests/data/text/small_vocabulary.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <nlohmann/json.hpp>

using namespace lockstep;
using namespace lockstep::testing;

namespace {

std::string tokens(const WordPiece& tokenizer, std::string_view text) {
  std::string out;
  for (const int32_t id : tokenizer.encode(text)) {
    out += (out.empty() ? "" : " ") + std::string(tokenizer.vocabulary().token(id));
  }
  return out;
}

std::string tokens(std::string_view text) { return tokens(small_tokenizer(), text); }

}  // namespace

TEST_CASE("ids are those of Hugging Face's tokenizers") {
  // tests/golden/make_word_piece.py
  const auto golden = nlohmann::json::parse(read_text("tests/golden/word_piece.json"));
  const Vocabulary vocabulary(golden["vocabulary"].get<std::vector<std::string>>());
  int count = 0;
  for (const auto& group : golden["groups"]) {
    const bool special = group["special_tokens"];
    const WordPiece tokenizer(vocabulary, {.lower_case = group["lower_case"],
                                           .strip_accents = group["strip_accents"].get<bool>()});
    for (const auto& one : group["cases"]) {
      const std::string text = one["text"];
      CAPTURE(text);
      std::vector<int32_t> ids;
      special ? tokenizer.encode_with_special(text, ids) : tokenizer.encode(text, ids);
      CHECK(ids == one["ids"].get<std::vector<int32_t>>());
      ++count;
    }
  }
  CHECK(count > 1000);
}

TEST_CASE("the longest token first, [UNK] for a word as a whole") {
  CHECK(tokens("unaffable") == "un ##aff ##able");
  CHECK(tokens("The wording.") == "the word ##ing .");
  CHECK(tokens("word!wordé") == "word [UNK] word ##e");
  CHECK(tokens("wordß word") == "[UNK] word");
  CHECK(tokens("") == "");
  CHECK(tokens(" \t\r\n") == "");
}

TEST_CASE("a word of more than 100 characters is one [UNK]") {
  const std::string a100(100, 'a');
  CHECK(small_tokenizer().encode(a100).size() == 100);
  CHECK(tokens(a100 + "a") == "[UNK]");
  CHECK(tokens("the " + a100 + "aaaa the") == "the [UNK] the");
  std::string accents;
  for (int i = 0; i < 100; ++i)
    accents += "\xC3\xA9";  // é is one character, and none is left of its accent
  CHECK(small_tokenizer().encode(accents).size() == 100);
  CHECK(tokens(accents + "\xC3\xA9") == "[UNK]");
  CHECK(tokens(std::string(1 << 20, 'a') + " the") == "[UNK] the");
}

TEST_CASE("special tokens are read from a text only when asked for") {
  const WordPiece tokenizer = small_tokenizer();
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<int32_t> ids;
  tokenizer.encode_with_special("the[MASK]word [mask] [SEP", ids);
  REQUIRE(ids.size() > 3);
  CHECK(ids[1] == vocabulary.mask());
  CHECK(std::count(ids.begin(), ids.end(), vocabulary.mask()) == 1);
  CHECK(std::count(ids.begin(), ids.end(), vocabulary.separator()) == 0);
  ids = tokenizer.encode("the [MASK]");
  CHECK(std::count(ids.begin(), ids.end(), vocabulary.mask()) == 0);
  // As long as the text, whatever is in it.
  ids.clear();
  tokenizer.encode_with_special(std::string(1 << 20, '[') + "]", ids);
  CHECK(ids.size() == (1 << 20) + 1);
}

TEST_CASE("what is no UTF-8 leaves no trace") {
  CHECK(tokens("wo\xFFrd") == "word");
  CHECK(tokens("wo\xC3rd") == "word");
  CHECK(tokens("word\xE2\x82") == "word");
  CHECK(tokens("word\xED\xA0\x80 word") == "word word");  // a surrogate
  CHECK(tokens("\xC0\xAF word") == "word");               // an overlong form
  CHECK(tokens("\xF4\x90\x80\x80 word") == "word");       // above U+10FFFF
}

TEST_CASE("marks come in canonical order") {
  const Vocabulary vocabulary({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a",
                               "##\xF0\x9D\x85\xA5", "##\xF0\x9D\x85\xAD"});
  // U+1D165 has class 216, U+1D16D 226; both are no Mn, so stripping leaves them.
  const std::string low = "\xF0\x9D\x85\xA5", high = "\xF0\x9D\x85\xAD", dropped = "\xCC\x81";
  const WordPiece tokenizer(vocabulary);
  const std::vector<int32_t> in_order = {5, 6, 7};
  CHECK(tokenizer.encode("a" + low + high) == in_order);
  CHECK(tokenizer.encode("a" + high + low) == in_order);
  CHECK(tokenizer.encode("a" + high + dropped + low) == in_order);
  CHECK(tokenizer.encode("a" + high + "\x01" + low) == in_order);
  const WordPiece keeps(vocabulary, {.lower_case = true, .strip_accents = false});
  CHECK(keeps.encode("a" + high + low) == std::vector<int32_t>{5, 7, 6});
}

TEST_CASE("decoding puts words together") {
  const WordPiece tokenizer = small_tokenizer();
  CHECK(tokenizer.decode(tokenizer.encode("The unaffable, wording.")) ==
        "the unaffable [UNK] wording .");
  CHECK(tokenizer.decode({}) == "");
  const std::vector<int32_t> bad = {100'000};
  CHECK_THROWS_AS(tokenizer.decode(bad), ArgumentError);
}

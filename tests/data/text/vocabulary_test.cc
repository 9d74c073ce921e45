#include "lockstep/data/text/vocabulary.h"

#include "lockstep/tests/data/text/small_vocabulary.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

using namespace lockstep;
using namespace lockstep::testing;

namespace {

const std::string kSpecial = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

std::string refused(const std::string& text) {
  return error_of([&] { Vocabulary::parse(text, "vocab.txt"); });
}

}  // namespace

TEST_CASE("a vocabulary's ids are its lines, with either line end") {
  for (const std::string& text :
       {"a\n" + kSpecial + "##b\n", "a\n" + kSpecial + "##b",
        std::string("a\r\n[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\n##b\r\n")}) {
    const Vocabulary vocabulary = Vocabulary::parse(text, "vocab.txt");
    REQUIRE(vocabulary.size() == 7);
    CHECK(vocabulary.token(0) == "a");
    CHECK(vocabulary.token(6) == "##b");
    CHECK(vocabulary.find("##b") == 6);
    CHECK(!vocabulary.find("b"));
    CHECK(vocabulary.pad() == 1);
    CHECK(vocabulary.unknown() == 2);
    CHECK(vocabulary.classify() == 3);
    CHECK(vocabulary.separator() == 4);
    CHECK(vocabulary.mask() == 5);
    CHECK(vocabulary.continues_word(6));
    CHECK(!vocabulary.continues_word(0));
    CHECK(vocabulary.is_special(5));
    CHECK(!vocabulary.is_special(6));
  }
}

TEST_CASE("a vocabulary is written as it was read") {
  const TempDir dir;
  const Vocabulary vocabulary = small_vocabulary();
  vocabulary.write(dir / "vocab.txt");
  const Vocabulary again = Vocabulary::read(dir / "vocab.txt");
  REQUIRE(again.size() == vocabulary.size());
  CHECK(again.hash() == vocabulary.hash());
  for (int64_t i = 0; i < again.size(); ++i) CHECK(again.token(i) == vocabulary.token(i));
}

TEST_CASE("the hash tells vocabularies apart") {
  const auto hash = [](const std::string& text) { return Vocabulary::parse(text, "v").hash(); };
  CHECK(hash(kSpecial + "a\nb\n") == hash(kSpecial + "a\nb"));
  CHECK(hash(kSpecial + "a\nb\n") != hash(kSpecial + "b\na\n"));
  CHECK(hash(kSpecial + "a\nb\n") != hash(kSpecial + "ab\n"));
}

TEST_CASE("faults of a vocabulary are named with their line") {
  CHECK(has(refused(""), "vocab.txt: wanted a token in each line, got an empty file"));
  CHECK(has(refused(kSpecial + "a\nb\na\n"),
            "vocab.txt:8: wanted each token once, got \"a\" again; it has id 5"));
  CHECK(has(refused(kSpecial + "a\n\nb\n"), "vocab.txt:7: wanted a token, got an empty line"));
  CHECK(has(refused("[PAD]\n[UNK]\n[CLS]\n[SEP]\nmask\n"), "got no [MASK]"));
  CHECK(has(refused(kSpecial + "a\xff\n"), "vocab.txt:6: wanted UTF-8, got \"a\\xff\""));
  CHECK(has(refused(kSpecial + std::string(1001, 'x')),
            "vocab.txt:6: wanted a token of at most 1000 bytes, got 1001"));
  CHECK(refused(kSpecial + std::string(1000, 'x')).empty());
  CHECK(has(error_of([] { Vocabulary::read("/nowhere/vocab.txt"); }), "/nowhere/vocab.txt"));
  CHECK_THROWS_AS(Vocabulary({"a", "b"}), ArgumentError);
  CHECK_THROWS_AS(small_vocabulary().token(-1), ArgumentError);
  CHECK_THROWS_AS(small_vocabulary().token(small_vocabulary().size()), ArgumentError);
}

#include "lockstep/data/text/corpus.h"

#include "lockstep/tests/data/text/small_vocabulary.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <cstring>

using namespace lockstep;
using namespace lockstep::testing;

namespace {

const std::string kText =
    "The word.\n"
    "unaffable\n"
    "\n"
    " \t\n"
    "wording word\r\n"
    "\x01\n"
    "\n"
    "a b c\n";

std::vector<int32_t> ids_of(const Corpus& corpus, int64_t line) {
  std::vector<int32_t> ids;
  corpus.read(corpus.line_begin(line), corpus.line_begin(line + 1), ids);
  return ids;
}

void check_is_text(const Corpus& corpus, int64_t copies = 1) {
  const WordPiece tokenizer = small_tokenizer();
  REQUIRE(corpus.lines() == 4 * copies);
  REQUIRE(corpus.documents() == 3 * copies);
  CHECK(corpus.tokens() == 12 * copies);
  for (int64_t i = 0; i < copies; ++i) {
    CHECK(ids_of(corpus, 4 * i) == tokenizer.encode("The word."));
    CHECK(ids_of(corpus, 4 * i + 1) == tokenizer.encode("unaffable"));
    CHECK(ids_of(corpus, 4 * i + 2) == tokenizer.encode("wording word"));
    CHECK(ids_of(corpus, 4 * i + 3) == tokenizer.encode("a b c"));
    CHECK(corpus.document_begin(3 * i) == 4 * i);
    CHECK(corpus.document_begin(3 * i + 1) == 4 * i + 2);
    CHECK(corpus.document_begin(3 * i + 2) == 4 * i + 3);
  }
  CHECK(corpus.document_begin(3 * copies) == 4 * copies);
  CHECK(corpus.line_begin(4 * copies) == corpus.tokens());
  for (int64_t line = 0; line < corpus.lines(); ++line) {
    for (int64_t t = corpus.line_begin(line); t < corpus.line_begin(line + 1); ++t) {
      CHECK(corpus.line_of(t) == line);
    }
  }
}

std::string refused(const std::vector<std::string>& paths) {
  return error_of([&] { open_corpus(paths, small_tokenizer()); });
}

void put(std::string& bytes, size_t at, uint64_t value, size_t count) {
  for (size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

}  // namespace

TEST_CASE("a corpus is the same from text and from token files") {
  const TempDir dir;
  const std::string text = dir / "a.txt";
  write_file(text, kText);
  check_is_text(*open_corpus({text}, small_tokenizer()));
  check_is_text(*open_corpus({text, text}, small_tokenizer()), 2);
  const std::string output = dir / "a.tokens";
  const TokenizeResult done = write_tokens({text}, small_tokenizer(), output);
  CHECK(done.tokens == 12);
  CHECK(done.unknown == 0);
  CHECK(done.lines == 4);
  CHECK(done.documents == 3);
  CHECK(done.shards == 1);
  CHECK(done.bytes == static_cast<int64_t>(read_text(output).size()));
  check_is_text(*open_corpus({output}, small_tokenizer()));
  check_is_text(*open_corpus({output, text}, small_tokenizer()), 2);
  std::vector<int32_t> across;
  open_corpus({output, text}, small_tokenizer())->read(10, 14, across);
  CHECK(across.size() == 4);
}

TEST_CASE("a byte order mark is no text") {
  const TempDir dir;
  write_file(dir / "a.txt", "\xEF\xBB\xBF" + kText);
  check_is_text(*open_corpus({dir / "a.txt"}, small_tokenizer()));
}

TEST_CASE("shards end with documents, and are one corpus") {
  const TempDir dir;
  const std::string text = dir / "a.txt", output = dir / "a.tokens";
  write_file(text, kText);
  for (const int64_t most : {1, 40, 60, 1000}) {
    const TokenizeResult done =
        write_tokens({text, text}, small_tokenizer(), output, {.shard_bytes = most});
    CHECK(done.documents >= 6);
    CHECK((most == 1000) == (done.shards == 1));
    const auto corpus = open_corpus({output}, small_tokenizer());
    CHECK(corpus->tokens() == 24);
    CHECK(corpus->lines() == 8);
    if (most >= 40) check_is_text(*corpus, 2);
  }
  write_tokens({text, text}, small_tokenizer(), output, {.shard_bytes = 40});
  const std::string first = read_text(output);
  std::filesystem::rename(output + ".1", dir / "kept");
  CHECK(has(refused({output}), "a.tokens.1 is missing; the shard before it is not the last one"));
  write_file(output + ".1", first);
  CHECK(has(refused({output}), "wanted shard 1 of"));
  write_file(text, "word\n\n" + kText);  // another text's shard under the right name
  write_tokens({text, text}, small_tokenizer(), dir / "b.tokens", {.shard_bytes = 40});
  write_file(output + ".1", read_text(dir / "b.tokens.1"));
  CHECK(has(refused({output}), "another run of 'lockstep tokenize'"));
}

TEST_CASE("tokens of another vocabulary are refused") {
  const TempDir dir;
  write_file(dir / "a.txt", kText);
  write_tokens({dir / "a.txt"}, small_tokenizer(), dir / "a.tokens");
  std::vector<std::string> tokens;
  for (int64_t i = 0; i < small_vocabulary().size(); ++i)
    tokens.emplace_back(small_vocabulary().token(i));
  std::swap(tokens[6], tokens[7]);
  CHECK(has(error_of([&] { open_corpus({dir / "a.tokens"}, WordPiece(Vocabulary(tokens))); }),
            "a.tokens: wanted a vocabulary of"));
  const std::string cased = error_of([&] {
    open_corpus({dir / "a.tokens"}, WordPiece(small_vocabulary(), {.lower_case = false}));
  });
  CHECK(has(cased, "cased"));
}

TEST_CASE("ids take four bytes beyond 65,536 tokens") {
  const TempDir dir;
  for (const int extra : {0, 1}) {
    std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    while (tokens.size() < 65'535) tokens.push_back("t" + std::to_string(tokens.size()));
    for (int i = 0; i <= extra; ++i) tokens.push_back(i == 0 ? "last" : "beyond");
    const WordPiece tokenizer{Vocabulary(tokens)};
    write_file(dir / "a.txt", "t7 last beyond\n");
    write_tokens({dir / "a.txt"}, tokenizer, dir / "a.tokens");
    const auto corpus = open_corpus({dir / "a.tokens"}, tokenizer);
    CHECK(ids_of(*corpus, 0) == std::vector<int32_t>{7, 65'535, extra ? 65'536 : 1});
    CHECK(static_cast<unsigned char>(read_text(dir / "a.tokens")[12]) == (extra ? 4 : 2));
  }
}

TEST_CASE("faults of texts and token files are named") {
  const TempDir dir;
  const std::string path = dir / "a.txt";
  CHECK(has(refused({path}), "a.txt"));
  write_file(path, "");
  CHECK(has(refused({path}), "a.txt: wanted text, got an empty file"));
  write_file(path, " \n\n\n");
  CHECK(has(refused({path}), "got blank lines alone"));
  write_file(path, "good\nbad \xE9t\xE9\n");
  CHECK(has(refused({path}), "a.txt:2: wanted UTF-8, got \"\\xe9\" at byte 9"));
  CHECK(
      has(error_of([&] { write_tokens({path}, small_tokenizer(), dir / "a.tokens"); }), "a.txt:2"));
  CHECK(!std::filesystem::exists(dir / "a.tokens"));
  write_file(path, kText);
  CHECK(
      has(error_of([&] { write_tokens({path}, small_tokenizer(), path); }), "is the text itself"));
  write_tokens({path}, small_tokenizer(), dir / "a.tokens");
  const std::string good = read_text(dir / "a.tokens");
  const auto with = [&](auto change) {
    std::string bytes = good;
    change(bytes);
    write_file(dir / "b.tokens", bytes);
    return refused({dir / "b.tokens"});
  };
  CHECK(with([](std::string&) {}) == "");
  CHECK(has(with([](std::string& b) { b.resize(50); }), "that is none"));
  CHECK(has(with([](std::string& b) { b.pop_back(); }), "the file is cut short or was added to"));
  CHECK(has(with([](std::string& b) { put(b, 8, 2, 4); }), "wanted version 1, got 2"));
  for (const size_t at : {40, 48, 56}) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 61}) {
      CHECK(has(with([&](std::string& b) { put(b, at, value, 8); }), "at least one of each"));
    }
  }
  const size_t lines_at = 104 + 24;
  CHECK(has(with([&](std::string& b) { put(b, lines_at, 0, 8); }), "the file is damaged"));
  CHECK(has(with([&](std::string& b) { put(b, lines_at + 8, 100, 8); }), "the file is damaged"));
  // An id is looked at when it is read.
  CHECK(with([](std::string& b) { put(b, 104, 0xFFFF, 2); }) == "");
  std::vector<int32_t> ids;
  const auto corpus = open_corpus({dir / "b.tokens"}, small_tokenizer());
  CHECK(has(error_of([&] { corpus->read(0, 12, ids); }), "token 0: wanted an id below"));
  CHECK_THROWS_AS(corpus->read(5, 13, ids), ArgumentError);
}

TEST_CASE("a line of 10 MB") {
  const TempDir dir;
  std::string line;
  while (line.size() < 10'000'000) line += "the word ";
  write_file(dir / "a.txt", line);
  const auto corpus = open_corpus({dir / "a.txt"}, small_tokenizer());
  CHECK(corpus->lines() == 1);
  CHECK(corpus->tokens() == 2 * static_cast<int64_t>(line.size() / 9));
}

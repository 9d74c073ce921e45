#include "lockstep/data/text/labelled_text.h"

#include "lockstep/tests/data/text/small_vocabulary.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

using namespace lockstep;
using namespace lockstep::testing;

namespace {

class Files {
 public:
  std::string write(const std::string& name, const std::string& text) {
    write_file(dir_ / name, text);
    return dir_ / name;
  }
  std::vector<LabelledLine> lines(const std::string& name, const std::string& text) {
    return read_labelled_text(write(name, text));
  }
  std::string refused(const std::string& name, const std::string& text,
                      std::vector<std::string> class_names = {}) {
    const std::string path = write(name, text);
    return error_of([&] {
      labelled_text({.path = path, .max_seq_length = 16, .class_names = class_names},
                    small_tokenizer());
    });
  }

 private:
  TempDir dir_;
};

std::string words(const WordPiece& tokenizer, const TextExample& example) {
  return tokenizer.decode(example.ids);
}

}  // namespace

TEST_CASE("TSV with and without names, JSONL: the same lines") {
  Files files;
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"a.tsv", "the word\tgood\na b\tbad\n"},
           {"b.tsv", "text\tlabel\nthe word\tgood\r\n\na b\tbad"},
           {"c.tsv", "label\tid\tsentence\ngood\t1\tthe word\nbad\t2\ta b\n"},
           {"d.jsonl",
            "{\"text\": \"the word\", \"label\": \"good\"}\n\n{\"label\":\"bad\",\"text\":\"a "
            "b\"}"}}) {
    CAPTURE(name);
    const auto lines = files.lines(name, text);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].text_a == "the word");
    CHECK(!lines[0].text_b);
    CHECK(lines[0].label == "good");
    CHECK(lines[1].text_a == "a b");
    CHECK(lines[1].label == "bad");
  }
  for (const auto& [name, text] : std::vector<std::pair<std::string, std::string>>{
           {"e.tsv", "the word\ta b\t1\n"},
           {"f.tsv", "label\ttext_a\ttext_b\n1\tthe word\ta b\n"},
           {"g.jsonl", "{\"text_a\": \"the word\", \"text_b\": \"a b\", \"label\": 1}"}}) {
    CAPTURE(name);
    const auto lines = files.lines(name, text);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].text_a == "the word");
    CHECK(lines[0].text_b == "a b");
    CHECK(lines[0].label == "1");
  }
}

TEST_CASE("classes are names in order, or the integers themselves") {
  Files files;
  const auto classes = [&](const std::string& text) {
    return labelled_text({.path = files.write("a.tsv", text)}, small_tokenizer())->class_names();
  };
  using Names = std::vector<std::string>;
  CHECK(classes("a\tnew\nb\told\nc\tnew\n") == Names{"new", "old"});
  CHECK(classes("a\t10\nb\t2\n").size() == 11);
  CHECK(classes("a\t1\nb\t-1\n") == Names{"-1", "1"});
  CHECK(classes("a\t01\nb\t1\n") == Names{"01", "1"});
  const auto data =
      labelled_text({.path = files.write("a.tsv", "a\t3\nb\t0\n")}, small_tokenizer());
  CHECK(data->classes() == 4);
  TextExample example;
  data->get(0, 0, example);
  CHECK(example.label == 3);
  data->get(7, 1, example);
  CHECK(example.label == 0);
}

TEST_CASE("examples are cut to the length, of a pair the longer one first") {
  Files files;
  const WordPiece tokenizer = small_tokenizer();
  const auto first = [&](const std::string& line) {
    const auto data = labelled_text(
        {.path = files.write("a.tsv", line + "\tx\n"), .max_seq_length = 10}, tokenizer);
    TextExample example;
    data->get(0, 0, example);
    CHECK(example.ids.size() <= 10);
    if (!example.types.empty()) CHECK(example.types.size() == example.ids.size());
    return words(tokenizer, example);
  };
  CHECK(first("a b") == "[CLS] a b [SEP]");
  CHECK(first("a b c d e f g h i j") == "[CLS] a b c d e f g h [SEP]");
  CHECK(first("a b\tc d") == "[CLS] a b [SEP] c d [SEP]");
  CHECK(first("a b c d e f g h\t1 2") == "[CLS] a b c d e [SEP] 1 2 [SEP]");
  CHECK(first("a b\t1 2 3 4 5 6 7 8") == "[CLS] a b [SEP] 1 2 3 4 5 [SEP]");
  CHECK(first("a b c d e f g h\t1 2 3 4 5 6") == "[CLS] a b c d [SEP] 1 2 3 [SEP]");
  CHECK(first("a b c d e\t1 2 3 4 5 6 7 8 9") == "[CLS] a b c d [SEP] 1 2 3 [SEP]");
  CHECK(first("a b c d\t1 2 3 4") == "[CLS] a b c d [SEP] 1 2 3 [SEP]");
  CHECK(first("a\t") == "[CLS] a [SEP] [SEP]");
}

TEST_CASE("faults of labelled texts are named with their line") {
  Files files;
  CHECK(
      has(files.refused("a.tsv", "a\tx\nb\n"), "a.tsv:2: wanted 2 columns with tabs between them"));
  CHECK(has(files.refused("a.tsv", "a\tx\nb\tc\ty\n"), "a.tsv:2: wanted 2 columns"));
  CHECK(has(files.refused("a.tsv", "just text\n"), "a.tsv:1: wanted text and label"));
  CHECK(has(files.refused("a.tsv", "1\t2\t3\t4\n"), "got 4 columns"));
  CHECK(has(files.refused("a.tsv", "a\tx\nb\t\n"), "a.tsv:2: wanted a label, got none"));
  CHECK(has(files.refused("a.tsv", "text\tlabel\n"), "wanted labelled texts, got none"));
  CHECK(has(files.refused("a.tsv", ""), "got an empty file"));
  CHECK(has(files.refused("a.tsv", "a\tx\n\xE9\tx\n"), "a.tsv:2: wanted UTF-8"));
  CHECK(has(files.refused("a.tsv", "a\tx\nb\tz\n", {"x", "y"}),
            "a.tsv:2: wanted one of the labels x, y, got \"z\""));
  CHECK(has(files.refused("a.tsv", "a\t5\n", {"0", "1"}),
            "a.tsv:1: wanted one of the labels 0, 1, got \"5\""));
  CHECK(has(files.refused("a.tsv", "a\t99999999999\nb\t0\n"), "wanted labels below"));
  CHECK(has(files.refused("a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": "),
            "a.jsonl:2: wanted {\"text\""));
  CHECK(has(files.refused("a.jsonl", "{\"txt\": \"a\", \"label\": 1}\n"),
            "a.jsonl:1: wanted a string \"text\""));
  CHECK(has(files.refused("a.jsonl", "{\"text\": \"a\"}\n"),
            "a.jsonl:1: wanted \"label\" as a string or an integer, got none"));
  CHECK(has(files.refused("a.jsonl", "{\"text\": \"a\", \"label\": 1.5}\n"), "got 1.5"));
  const std::string nested = std::string(400'000, '[') + std::string(400'000, ']');
  CHECK(has(files.refused("a.jsonl", "{\"text\": \"a\", \"label\": " + nested + "}\n"),
            "a.jsonl:1: wanted \"label\" as a string or an integer, got an array"));
  CHECK(has(
      files.refused(
          "a.jsonl",
          "{\"text\": \"a\", \"text_b\": \"b\", \"label\": 1}\n{\"text\": \"a\", \"label\": 1}\n"),
      "a.jsonl:2: wanted two texts as in line 1, got one"));
  CHECK_THROWS_AS(labelled_text({.path = "x", .max_seq_length = 4}, small_tokenizer()),
                  ArgumentError);
}

TEST_CASE("texts of the user's own, with special tokens") {
  const WordPiece tokenizer = small_tokenizer();
  const auto examples = text_examples({"the [MASK]", "a"}, {}, tokenizer, 16);
  REQUIRE(examples.size() == 2);
  CHECK(words(tokenizer, examples[0]) == "[CLS] the [MASK] [SEP]");
  CHECK(examples[0].label == -1);
  CHECK(words(tokenizer, text_examples({"a"}, {"b"}, tokenizer, 16)[0]) == "[CLS] a [SEP] b [SEP]");
  CHECK_THROWS_AS(text_examples({"a"}, {"b", "c"}, tokenizer, 16), ArgumentError);
}

#include "lockstep/data/text/pretraining.h"

#include "lockstep/tests/data/text/small_vocabulary.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <set>

using namespace lockstep;
using namespace lockstep::testing;

namespace {

/// `documents` with some lines each of 1 to 30 one-letter words; letters name the document.
std::shared_ptr<const Corpus> make_corpus(int documents) {
  std::vector<std::string> lines;
  for (int d = 0; d < documents; ++d) {
    for (int l = 0; l < 4 + d % 7; ++l) {
      std::string line;
      for (int w = 0; w < 1 + (d * 13 + l * 7) % 30; ++w)
        line += std::string(1, static_cast<char>('a' + d % 26)) + " ";
      lines.push_back(line);
    }
    lines.emplace_back();
  }
  return corpus_of_lines(lines, small_tokenizer());
}

void check_covers(const Corpus& corpus, const std::vector<Segment>& segments, int64_t budget) {
  int64_t at = 0;
  for (const Segment& s : segments) {
    CHECK(s.begin == at);
    CHECK(s.end > s.begin);
    CHECK(s.end - s.begin <= budget);
    at = s.end;
  }
  CHECK(at == corpus.tokens());
}

}  // namespace

TEST_CASE("segments hold every token once, and cut lines only when they must") {
  const auto corpus = make_corpus(40);
  std::set<int64_t> line_begins, document_begins;
  for (int64_t l = 0; l <= corpus->lines(); ++l) line_begins.insert(corpus->line_begin(l));
  for (int64_t d = 0; d <= corpus->documents(); ++d) {
    document_begins.insert(corpus->line_begin(corpus->document_begin(d)));
  }
  for (const int64_t budget : {1, 7, 30, 62, 10'000}) {
    for (const Packing packing : {Packing::kSentences, Packing::kDocuments, Packing::kStream}) {
      const auto segments = pack_segments(*corpus, packing, budget);
      check_covers(*corpus, segments, budget);
      if (packing == Packing::kStream) {
        CHECK(static_cast<int64_t>(segments.size()) == (corpus->tokens() + budget - 1) / budget);
        continue;
      }
      for (size_t i = 0; i + 1 < segments.size(); ++i) {
        const int64_t cut = segments[i].end;
        // No line is longer than 30.
        if (budget >= 30) CHECK(line_begins.contains(cut));
        // Full: the next line would not have fitted.
        const int64_t next = *line_begins.upper_bound(cut);
        const bool full = next - segments[i].begin > budget;
        CHECK((full || (packing == Packing::kDocuments && document_begins.contains(cut))));
      }
      if (packing == Packing::kDocuments) {
        for (const int64_t d : document_begins) {
          CHECK(std::none_of(segments.begin(), segments.end(),
                             [&](const Segment& s) { return s.begin < d && d < s.end; }));
        }
      }
    }
    const auto lines = pack_segments(*corpus, Packing::kLines, budget);
    REQUIRE(static_cast<int64_t>(lines.size()) == corpus->lines());
    for (int64_t l = 0; l < corpus->lines(); ++l) {
      const auto [begin, end] = lines[static_cast<size_t>(l)];
      CHECK(begin == corpus->line_begin(l));
      CHECK(end == std::min(corpus->line_begin(l + 1), begin + budget));
    }
  }
}

TEST_CASE("an example is [CLS] tokens [SEP], masked") {
  const auto corpus = make_corpus(40);
  const Vocabulary& vocabulary = corpus->vocabulary();
  const auto data = pretraining_dataset(corpus, {.max_seq_length = 32, .seed = 3});
  const auto segments = pack_segments(*corpus, Packing::kSentences, 30);
  REQUIRE(data->size() == static_cast<int64_t>(segments.size()));
  CHECK(data->classes() == 0);
  TextExample example;
  for (int64_t i = 0; i < data->size(); ++i) {
    data->get(5, i, example);
    CHECK(example.label == -1);
    CHECK(example.types.empty());
    CHECK(!example.masked_positions.empty());
    for (size_t k = 0; k < example.masked_positions.size(); ++k) {
      example.ids[static_cast<size_t>(example.masked_positions[k])] = example.masked_labels[k];
    }
    std::vector<int32_t> wanted = {vocabulary.classify()};
    const auto [begin, end] = segments[static_cast<size_t>(i)];
    corpus->read(begin, end, wanted);
    wanted.push_back(vocabulary.separator());
    CHECK(example.ids == wanted);
  }
}

TEST_CASE("pairs: half of them follow each other, the others are of another document") {
  const auto corpus = make_corpus(60);
  const Vocabulary& vocabulary = corpus->vocabulary();
  const auto data = pretraining_dataset(
      corpus, {.max_seq_length = 64, .next_sentence = true, .masking = {.mlm_probability = 0}});
  CHECK(data->classes() == 2);
  int64_t next = 0, all = 0, length[2] = {0, 0};
  std::set<std::vector<int32_t>> cuts;
  TextExample example;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    for (int64_t i = 0; i < data->size(); ++i) {
      data->get(epoch, i, example);
      const std::vector<int32_t>& ids = example.ids;
      REQUIRE(ids.size() <= 64);
      REQUIRE(ids.size() == example.types.size());
      REQUIRE(ids.front() == vocabulary.classify());
      REQUIRE(ids.back() == vocabulary.separator());
      const auto middle = std::find(ids.begin(), ids.end(), vocabulary.separator());
      const auto first = static_cast<size_t>(middle - ids.begin());
      REQUIRE(first >= 2);
      REQUIRE(first + 2 < ids.size());
      REQUIRE(std::count(ids.begin(), ids.end(), vocabulary.separator()) == 2);
      for (size_t k = 0; k < ids.size(); ++k) REQUIRE(example.types[k] == (k > first));
      // Every document has one letter; neighbours of 26 share none.
      const bool same = ids[1] == ids[first + 1];
      if (example.label == 0) REQUIRE(same);
      length[example.label] += static_cast<int64_t>(ids.size());
      next += example.label == 0;
      ++all;
      if (i == 0) cuts.insert(ids);
    }
  }
  CHECK(static_cast<double>(next) / static_cast<double>(all) == doctest::Approx(0.5).epsilon(0.1));
  CHECK(cuts.size() > 5);  // another one in each epoch
  // The length does not give the answer away.
  const double mean[2] = {static_cast<double>(length[0]) / static_cast<double>(next),
                          static_cast<double>(length[1]) / static_cast<double>(all - next)};
  CHECK(mean[0] == doctest::Approx(mean[1]).epsilon(0.08));
}

TEST_CASE("pairs from another document, where there is one") {
  const auto corpus = make_corpus(3);
  const auto data = pretraining_dataset(
      corpus, {.max_seq_length = 40, .next_sentence = true, .masking = {.mlm_probability = 0}});
  TextExample example;
  int64_t others = 0;
  for (int64_t epoch = 0; epoch < 50; ++epoch) {
    for (int64_t i = 0; i < data->size(); ++i) {
      data->get(epoch, i, example);
      const auto middle = std::find(example.types.begin(), example.types.end(), 1);
      const auto second = example.ids[static_cast<size_t>(middle - example.types.begin())];
      CHECK((example.ids[1] == second) == (example.label == 0));
      others += example.label;
    }
  }
  CHECK(others > 0);
  // One document alone: another part of it.
  const auto one =
      corpus_of_lines(std::vector<std::string>(20, "a b c d e f g h"), small_tokenizer());
  const auto pairs = pretraining_dataset(one, {.max_seq_length = 40, .next_sentence = true});
  for (int64_t i = 0; i < pairs->size(); ++i) {
    pairs->get(0, i, example);
    CHECK(example.ids.size() <= 40);
  }
}

TEST_CASE("what is held out stays out, of pairs too") {
  // A letter names its line; in two documents, the second of which is cut.
  std::vector<std::string> lines;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    std::string line;
    for (int i = 0; i < 10; ++i) line += std::string(1, letter) + " ";
    lines.push_back(line);
    if (letter == 'h') lines.emplace_back();
  }
  const auto corpus = corpus_of_lines(lines, small_tokenizer());
  REQUIRE(corpus->documents() == 2);
  const int64_t middle = corpus->line_begin(14);
  std::vector<int32_t> before, behind;
  corpus->read(0, middle, before);
  corpus->read(middle, corpus->tokens(), behind);
  for (const bool next_sentence : {false, true}) {
    for (const bool first : {true, false}) {
      PretrainingOptions options{.max_seq_length = 36,
                                 .packing = Packing::kStream,
                                 .next_sentence = next_sentence,
                                 .masking = {.mlm_probability = 0}};
      (first ? options.end : options.begin) = middle;
      const auto data = pretraining_dataset(corpus, options);
      const std::vector<int32_t>& allowed = first ? before : behind;
      const std::set<int32_t> known(allowed.begin(), allowed.end());
      CHECK(data->size() >= 3);
      for (int64_t epoch = 0; epoch < 20; ++epoch) {
        for (int64_t i = 0; i < data->size(); ++i) {
          TextExample example;
          data->get(epoch, i, example);
          for (const int32_t id : example.ids) {
            CHECK((corpus->vocabulary().is_special(id) || known.contains(id)));
          }
        }
      }
    }
  }
}

TEST_CASE("wrong options of pre-training") {
  const auto corpus = make_corpus(5);
  CHECK_THROWS_AS(pretraining_dataset(corpus, {.max_seq_length = 7}), ArgumentError);
  CHECK_THROWS_AS(pretraining_dataset(corpus, {.masking = {.mlm_probability = 1.5}}),
                  ArgumentError);
  const auto tiny = corpus_of_lines({"a b c"}, small_tokenizer());
  CHECK(has(error_of([&] { pretraining_dataset(tiny, {.next_sentence = true}); }),
            "wants at least two segments of two tokens, got 1"));
}

#include "lockstep/data/text/text_batch.h"

#include "lockstep/data/text/pretraining.h"
#include "lockstep/tests/data/text/small_vocabulary.h"

#include <doctest/doctest.h>

using namespace lockstep;
using namespace lockstep::testing;

namespace {

std::shared_ptr<const TextDataset> make_data(bool pairs, int64_t max_seq_length = 30) {
  std::vector<std::string> lines;
  for (int i = 0; i < 200; ++i) {
    std::string line;
    for (int w = 0; w < 1 + i * 7 % 23; ++w)
      line += std::string(1, static_cast<char>('a' + (i + w) % 26)) + " ";
    lines.push_back(line);
    if (i % 9 == 0) lines.emplace_back();
  }
  return pretraining_dataset(corpus_of_lines(lines, small_tokenizer()),
                             {.max_seq_length = max_seq_length,
                              .packing = Packing::kLines,
                              .next_sentence = pairs,
                              .seed = 11});
}

/// A batch as its examples again, so that batches of different widths can be compared.
std::vector<TextExample> rows(const TextBatch& batch) {
  std::vector<TextExample> out(static_cast<size_t>(batch.size()));
  const int64_t length = batch.length();
  for (int64_t r = 0; r < batch.size(); ++r) {
    for (int64_t c = 0; c < length; ++c) {
      if (batch.padding.defined() && batch.padding.data<uint8_t>()[r * length + c]) continue;
      auto& row = out[static_cast<size_t>(r)];
      row.ids.push_back(static_cast<int32_t>(batch.ids.data<int64_t>()[r * length + c]));
      if (batch.types.defined()) {
        row.types.push_back(static_cast<int32_t>(batch.types.data<int64_t>()[r * length + c]));
      }
    }
    if (batch.labels.defined()) out[static_cast<size_t>(r)].label = batch.labels.data<int64_t>()[r];
  }
  for (int64_t m = 0; m < batch.masked_positions.dim(0); ++m) {
    const int64_t at = batch.masked_positions.data<int64_t>()[m];
    auto& row = out[static_cast<size_t>(at / length)];
    row.masked_positions.push_back(static_cast<int32_t>(at % length));
    row.masked_labels.push_back(static_cast<int32_t>(batch.masked_labels.data<int64_t>()[m]));
  }
  return out;
}

void check_equal(const TextExample& a, const TextExample& b) {
  CHECK(a.ids == b.ids);
  CHECK(a.types == b.types);
  CHECK(a.masked_positions == b.masked_positions);
  CHECK(a.masked_labels == b.masked_labels);
  CHECK(a.label == b.label);
}

}  // namespace

TEST_CASE("a batch is its examples, padded to a multiple of 8") {
  for (const bool pairs : {false, true}) {
    const auto data = make_data(pairs);
    std::vector<TextExample> examples(5);
    for (int64_t i = 0; i < 5; ++i) data->get(0, i, examples[static_cast<size_t>(i)]);
    size_t longest = 0;
    int64_t tokens = 0;
    for (const auto& e : examples) {
      longest = std::max(longest, e.ids.size());
      tokens += static_cast<int64_t>(e.ids.size());
    }
    const TextBatch batch = make_text_batch(examples, *data);
    CHECK(batch.size() == 5);
    CHECK(batch.length() == std::min<int64_t>(30, static_cast<int64_t>((longest + 7) / 8 * 8)));
    CHECK(batch.tokens == tokens);
    CHECK(batch.types.defined() == pairs);
    CHECK(batch.labels.defined() == pairs);
    REQUIRE(batch.padding.defined());
    const int64_t length = batch.length();
    for (int64_t i = 0; i < 5 * length; ++i) {
      if (batch.padding.data<uint8_t>()[i]) CHECK(batch.ids.data<int64_t>()[i] == data->pad_id());
    }
    const auto again = rows(batch);
    for (size_t i = 0; i < 5; ++i) check_equal(again[i], examples[i]);
    CHECK(make_text_batch(examples, *data, {.pad_to_max_length = true}).length() == 30);
    CHECK(make_text_batch(examples, *data, {.pad_to_multiple_of = 1}).length() ==
          static_cast<int64_t>(longest));
    const std::span<const TextExample> one(examples.data(), 1);
    for (const int64_t most : {1, 9}) {  // fewer than there are, and more
      const TextBatch fixed = make_text_batch(one, *data, {.fixed_masked = most});
      const auto places = static_cast<int64_t>(one[0].masked_positions.size());
      CHECK(fixed.length() == 30);
      CHECK(fixed.padding.defined());
      REQUIRE(fixed.masked_labels.dim(0) == std::max(places, most));
      CHECK(fixed.masked() == places);
      for (int64_t i = places; i < most; ++i) {
        CHECK(fixed.masked_positions.data<int64_t>()[i] == 0);
        CHECK(fixed.masked_labels.data<int64_t>()[i] == -100);
      }
    }
    CHECK(!make_text_batch(one, *data, {.pad_to_multiple_of = 1}).padding.defined());
    CHECK_THROWS_AS(make_text_batch(examples, *data, {.pad_to_multiple_of = 0}), ArgumentError);
    examples[2].ids.resize(31);
    CHECK_THROWS_AS(make_text_batch(examples, *data), ArgumentError);
  }
}

TEST_CASE("ranks see together what one process sees, masks and all") {
  for (const bool pairs : {false, true}) {
    const auto data = make_data(pairs);
    for (const LastBatch last : {LastBatch::kDrop, LastBatch::kPad, LastBatch::kKeep}) {
      const auto loader = [&](int rank, int world, int64_t batch) {
        return TextLoader(data, DistributedSampler({.size = data->size(),
                                                    .batch_size = batch,
                                                    .rank = rank,
                                                    .world_size = world,
                                                    .seed = 5,
                                                    .last_batch = last}));
      };
      TextLoader one = loader(0, 1, 12);
      std::vector<TextLoader> ranks = {loader(0, 3, 4), loader(1, 3, 4), loader(2, 3, 4)};
      for (int64_t epoch = 0; epoch < 2; ++epoch) {
        one.begin_epoch(epoch);
        for (TextLoader& rank : ranks) rank.begin_epoch(epoch);
        int64_t batches = 0;
        while (const auto batch = one.next()) {
          std::vector<TextExample> together;
          for (TextLoader& rank : ranks) {
            const auto share = rank.next();
            REQUIRE(share);
            for (TextExample& example : rows(*share)) together.push_back(std::move(example));
          }
          const auto wanted = rows(*batch);
          REQUIRE(together.size() == wanted.size());
          for (size_t i = 0; i < wanted.size(); ++i) check_equal(together[i], wanted[i]);
          ++batches;
        }
        CHECK(batches == one.batches());
        for (TextLoader& rank : ranks) CHECK(!rank.next());
      }
    }
  }
}

TEST_CASE("an epoch can be entered at any batch, and epochs differ") {
  const auto data = make_data(false);
  TextLoader loader(data, DistributedSampler({.size = data->size(), .batch_size = 16, .seed = 5}));
  CHECK(!loader.next());
  std::vector<std::vector<int64_t>> seen[2];
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    loader.begin_epoch(epoch);
    while (const auto batch = loader.next()) seen[epoch].push_back(batch->ids.to_vector<int64_t>());
  }
  CHECK(seen[0].size() == static_cast<size_t>(loader.batches()));
  CHECK(seen[0] != seen[1]);
  for (int64_t start = 0; start <= loader.batches(); ++start) {
    loader.begin_epoch(1, start);
    for (int64_t k = start; k < loader.batches(); ++k) {
      CHECK(loader.next()->ids.to_vector<int64_t>() == seen[1][static_cast<size_t>(k)]);
    }
    CHECK(!loader.next());
  }
  CHECK_THROWS_AS(loader.begin_epoch(0, loader.batches() + 1), ArgumentError);
  CHECK_THROWS_AS(loader.begin_epoch(0, -1), ArgumentError);
}

TEST_CASE("an evaluation's last batch may be empty on a rank") {
  const auto data = make_data(true, 64);
  const int64_t size = data->size();
  const auto world = static_cast<int>(size) + 1;
  int empty = 0;
  for (int rank = 0; rank < world; ++rank) {
    TextLoader loader(data, DistributedSampler({.size = size,
                                                .batch_size = 1,
                                                .rank = rank,
                                                .world_size = world,
                                                .shuffle = false,
                                                .last_batch = LastBatch::kKeep}));
    loader.begin_epoch(0);
    const std::optional<TextBatch> batch = loader.next();
    REQUIRE(batch);
    CHECK(!loader.next());
    if (batch->size() > 0) continue;
    ++empty;
    CHECK(batch->tokens == 0);
    CHECK(batch->labels.dim(0) == 0);
    CHECK(batch->masked_positions.dim(0) == 0);
  }
  CHECK(empty == 1);
  CHECK_THROWS_AS(TextLoader(data, DistributedSampler({.size = size + 1})), ArgumentError);
}

// BERT, whose decoder is tied to its word embedding, trained on ranks.
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/record.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/global_count.h"
#include "lockstep/models/bert.h"
#include "lockstep/optim/adam.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/models/small_bert.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace lockstep {
namespace {

using testing::relative_difference;
using testing::small_bert_config;
using testing::SmallBatch;

constexpr int64_t kBatch = 6, kLength = 10;

/// Rank `rank`'s sequences, as many as each of `ranks` has; the last rank has no masked token.
struct Share {
  BertInput input;
  Tensor positions, labels, next_labels;

  Share(const SmallBatch& whole, int rank, int ranks) {
    const int64_t rows = kBatch / ranks, begin = rank * rows, end = begin + rows;
    input = {.ids = whole.input.ids.slice(begin, end),
             .types = whole.input.types.slice(begin, end),
             .padding = whole.input.padding.slice(begin, end)};
    next_labels = whole.next_labels.slice(begin, end);
    std::vector<int64_t> at, label;
    for (int64_t i = 0; i < whole.masked_positions.numel(); ++i) {
      const int64_t place = whole.masked_positions.data<int64_t>()[i] - begin * kLength;
      if (place < 0 || place >= rows * kLength) continue;
      at.push_back(place);
      label.push_back(whole.masked_labels.data<int64_t>()[i]);
    }
    positions = Tensor::from(at, {static_cast<int64_t>(at.size())});
    labels = Tensor::from(label, {static_cast<int64_t>(label.size())});
  }
};

/// Without those of the last two sequences.
SmallBatch make_batch(uint64_t seed) {
  SmallBatch batch(kBatch, kLength, seed);
  const auto all = batch.masked_positions.to_vector<int64_t>();
  const auto kept = static_cast<int64_t>(
      std::count_if(all.begin(), all.end(), [](int64_t p) { return p < (kBatch - 2) * kLength; }));
  batch.masked_positions = batch.masked_positions.slice(0, kept);
  batch.masked_labels = batch.masked_labels.slice(0, kept);
  return batch;
}

/// The parameters of every rank after a few steps.
std::vector<std::vector<Tensor>> train(int ranks, DdpOptions options, int steps = 6) {
  std::vector<std::vector<Tensor>> result(static_cast<size_t>(ranks));
  spawn(ranks, [&](ProcessGroup& group) {
    Generator rng(1);
    BertForPreTraining model(small_bert_config(), rng);
    model.to(DType::kF64);
    DataParallel ddp(model, group, options);
    AdamW optimizer(model.named_parameters(), {.lr = 1e-3, .eps = 1e-6});
    for (int step = 0; step < steps; ++step) {
      const Share share(make_batch(static_cast<uint64_t>(step) + 1), group.rank(), ranks);
      optimizer.zero_grad();
      const double count = 1 / mean_scale(group, static_cast<double>(share.labels.numel()));
      const auto out = model(share.input, share.positions);
      bert_pretraining_loss(out, share.labels, share.next_labels, count).backward();
      optimizer.step();
    }
    auto& mine = result[static_cast<size_t>(group.rank())];
    for (const Variable& p : model.parameters()) mine.push_back(ops::clone(p.data()));
  });
  return result;
}

double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, relative_difference(a[i], b[i]));
  return most;
}

TEST_CASE("three ranks, one without a masked token, train what one process trains") {
  for (int64_t i = 1; i <= 6; ++i) {
    const SmallBatch batch = make_batch(static_cast<uint64_t>(i));
    CHECK(Share(batch, 0, 3).positions.numel() > 0);
    CHECK(Share(batch, 2, 3).positions.numel() == 0);
  }
  const auto one = train(1, {})[0];
  CHECK(difference(train(1, {}, 0)[0], one) > 0.01);
  for (double cap : {0.0, 0.01, 25.0}) {
    CAPTURE(cap);
    const auto run = [&](DdpMode mode) {
      return train(3, {.mode = mode, .bucket_cap_mb = cap, .first_bucket_cap_mb = cap});
    };
    const auto naive = run(DdpMode::kNaive);
    // f64 sums in another order, through six steps of AdamW, which divides small gradients by
    // themselves.
    CHECK(difference(naive[0], one) < 1e-9);
    for (DdpMode mode : {DdpMode::kBucketed, DdpMode::kOverlapped}) {
      const auto ranks = run(mode);
      CHECK(difference(ranks[0], naive[0]) < 1e-9);
      for (const auto& replica : ranks) CHECK(difference(replica, ranks[0]) == 0);
    }
  }
}

TEST_CASE("the tied embedding has one place in one bucket") {
  const auto group = make_single_group();
  Generator rng(1);
  BertForPreTraining model(small_bert_config(), rng);
  const DataParallel ddp(model, *group);
  int found = 0;
  for (const ParamSpec& spec : ddp.param_specs()) {
    found += spec.shape == Shape{60, 32} ? 1 : 0;
    CHECK(spec.name.find("decoder") == std::string::npos);
  }
  CHECK(found == 1);
}

TEST_CASE("a warm step copies no gradient and asks for no memory") {
  const auto group = make_single_group();
  Generator rng(1);
  BertConfig config = small_bert_config();
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1;
  BertForPreTraining model(config, rng);
  DataParallel ddp(model, *group);
  AdamW optimizer(model.named_parameters(), {.lr = 1e-3});
  const SmallBatch batch(kBatch, kLength, 1);
  const uint64_t copied = gradient_bytes_copied();
  uint64_t misses = 0;
  for (int step = 0; step < 5; ++step) {
    if (step == 2) misses = cpu_allocator().stats().misses;
    optimizer.zero_grad();
    bert_pretraining_loss(model(batch.input, batch.masked_positions), batch.masked_labels,
                          batch.next_labels)
        .backward();
    optimizer.step();
  }
  CHECK(cpu_allocator().stats().misses == misses);
  CHECK(gradient_bytes_copied() == copied);
  CHECK(optimizer.passes_of_last_step() == 1);
}

}  // namespace
}  // namespace lockstep

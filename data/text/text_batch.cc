#include "lockstep/data/text/text_batch.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <utility>

namespace lockstep {

TextBatch make_text_batch(std::span<const TextExample> examples, const TextDataset& dataset,
                          const TextBatchOptions& options) {
  const int64_t most = dataset.max_seq_length(), multiple = options.pad_to_multiple_of;
  check(multiple >= 1, "make_text_batch: wanted pad_to_multiple_of of at least 1, got ", multiple);
  int64_t longest = 0, tokens = 0, masked = 0;
  bool typed = false;
  for (const TextExample& example : examples) {
    const auto length = static_cast<int64_t>(example.ids.size());
    longest = std::max(longest, length);
    tokens += length;
    masked += static_cast<int64_t>(example.masked_positions.size());
    typed = typed || !example.types.empty();
  }
  check(longest <= most, "make_text_batch: wanted sequences of at most ", most,
        " tokens, got one of ", longest);
  const auto rows = static_cast<int64_t>(examples.size());
  const int64_t rounded = (std::max<int64_t>(longest, 1) + multiple - 1) / multiple * multiple;
  const bool fixed = options.fixed_masked.has_value();
  const int64_t length = options.pad_to_max_length || fixed ? most : std::min(most, rounded);
  const int64_t places = std::max(masked, options.fixed_masked.value_or(0) * rows);

  TextBatch batch;
  batch.tokens = tokens;
  batch.filled = places - masked;
  batch.ids = Tensor::empty({rows, length}, DType::kI64);
  batch.masked_positions = Tensor::empty({places}, DType::kI64);
  batch.masked_labels = Tensor::empty({places}, DType::kI64);
  if (typed) batch.types = Tensor::empty({rows, length}, DType::kI64);
  if (tokens < rows * length || fixed) batch.padding = Tensor::empty({rows, length}, DType::kU8);
  if (dataset.classes() > 0) batch.labels = Tensor::empty({rows}, DType::kI64);
  auto* ids = batch.ids.mutable_data<int64_t>();
  auto* types = typed ? batch.types.mutable_data<int64_t>() : nullptr;
  auto* padding = batch.padding.defined() ? batch.padding.mutable_data<uint8_t>() : nullptr;
  auto* positions = batch.masked_positions.mutable_data<int64_t>();
  auto* masked_labels = batch.masked_labels.mutable_data<int64_t>();
  for (int64_t row = 0; row < rows; ++row) {
    const TextExample& example = examples[static_cast<size_t>(row)];
    const auto used = static_cast<int64_t>(example.ids.size());
    const int64_t begin = row * length;
    std::copy(example.ids.begin(), example.ids.end(), ids + begin);
    std::fill(ids + begin + used, ids + begin + length, dataset.pad_id());
    if (typed) {
      std::copy(example.types.begin(), example.types.end(), types + begin);
      std::fill(types + begin + static_cast<int64_t>(example.types.size()), types + begin + length,
                0);
    }
    if (padding != nullptr) {
      std::fill(padding + begin, padding + begin + used, uint8_t{0});
      std::fill(padding + begin + used, padding + begin + length, uint8_t{1});
    }
    for (const int32_t at : example.masked_positions) *positions++ = begin + at;
    masked_labels =
        std::copy(example.masked_labels.begin(), example.masked_labels.end(), masked_labels);
    if (batch.labels.defined()) batch.labels.mutable_data<int64_t>()[row] = example.label;
  }
  std::fill_n(positions, places - masked, 0);
  std::fill_n(masked_labels, places - masked, TextBatch::kNoLabel);
  return batch;
}

TextLoader::TextLoader(std::shared_ptr<const TextDataset> dataset,
                       const DistributedSampler& sampler, const TextBatchOptions& options)
    : dataset_(std::move(dataset)), sampler_(sampler), options_(options) {
  check(sampler.options().size == dataset_->size(), "TextLoader: the sampler is for ",
        sampler.options().size, " samples, the data set has ", dataset_->size());
  check(options.pad_to_multiple_of >= 1,
        "TextLoader: wanted pad_to_multiple_of of at least 1, got ", options.pad_to_multiple_of);
}

void TextLoader::begin_epoch(int64_t epoch, int64_t start_batch) {
  check(0 <= start_batch && start_batch <= batches(),
        "TextLoader::begin_epoch: wanted a start batch in [0, ", batches(), "], got ", start_batch);
  order_ = sampler_.epoch(epoch);
  epoch_ = epoch;
  next_ = start_batch;
}

std::optional<TextBatch> TextLoader::next() {
  if (!order_ || next_ == order_->batches()) return std::nullopt;
  const std::span<const int64_t> indices = order_->batch(next_);
  if (examples_.size() < indices.size()) examples_.resize(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) dataset_->get(epoch_, indices[i], examples_[i]);
  ++next_;
  return make_text_batch(std::span(examples_).first(indices.size()), *dataset_, options_);
}

}  // namespace lockstep

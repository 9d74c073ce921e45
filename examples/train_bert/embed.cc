#include "predict.h"
#include "write_vectors.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/labelled_text.h"
#include "lockstep/data/text/text_batch.h"
#include "lockstep/io/file.h"
#include "lockstep/models/bert.h"
#include "lockstep/models/sentence_embedding.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/train/bert_task.h"
#include "lockstep/train/trained_bert.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

namespace lockstep::train_bert {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 32;

std::vector<std::string> lines_of(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMostBytes);
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  if (lines.empty()) throw IoError(str(path, ": wanted a text in each line, got an empty file"));
  return lines;
}

/// As a data set, which a batch is made of.
class Texts final : public TextDataset {
 public:
  Texts(std::vector<TextExample> examples, int64_t longest, int32_t pad_id)
      : examples_(std::move(examples)), longest_(longest), pad_id_(pad_id) {}

  int64_t size() const override { return static_cast<int64_t>(examples_.size()); }
  void get(int64_t /*epoch*/, int64_t index, TextExample& example) const override {
    example = examples_.at(static_cast<size_t>(index));
  }
  int64_t max_seq_length() const override { return longest_; }
  int32_t pad_id() const override { return pad_id_; }

 private:
  std::vector<TextExample> examples_;
  int64_t longest_;
  int32_t pad_id_;
};

}  // namespace

void embed(const EmbedOptions& o) {
  const NoGrad no_grad;
  check_vector_file(o.output);
  const Device device = use_device(o.device);
  const TrainedBert trained = find_trained_bert(o.checkpoint);
  const WordPiece tokenizer = read_tokenizer(trained.folder, trained.config);
  const std::vector<std::string> lines = lines_of(o.file);
  Generator rng(0);
  BertModel model(trained.config, rng, /*with_pooler=*/false);
  load_trained_bert(trained, model, {.strict = false});
  model.to(device);
  model.eval();
  const int64_t longest = std::min(o.max_seq_length, trained.config.max_position_embeddings);
  const auto texts = std::make_shared<Texts>(text_examples(lines, {}, tokenizer, longest), longest,
                                             tokenizer.vocabulary().pad());
  TextLoader loader(texts, DistributedSampler({.size = texts->size(),
                                               .batch_size = o.batch_size,
                                               .shuffle = false,
                                               .last_batch = LastBatch::kKeep}));
  Tensor vectors = Tensor::empty({texts->size(), trained.config.hidden_size}, DType::kF32);
  float* to = vectors.mutable_data<float>();
  loader.begin_epoch(0);
  while (const std::optional<TextBatch> batch = loader.next()) {
    const Variable sequence = model(bert_input(to_device(*batch, device))).sequence;
    const Variable found = sentence_embeddings(sequence, batch->padding);
    const Tensor part = ops::to_device(found.data(), Device::cpu());
    to = std::copy_n(part.data<float>(), part.numel(), to);
  }
  write_vectors(o.output, vectors);
}

}  // namespace lockstep::train_bert

#include "text_data.h"

#include "dataset_part.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/labelled_text.h"
#include "lockstep/data/text/pretraining.h"
#include "lockstep/data/text/token_file.h"
#include "lockstep/data/text/train_vocabulary.h"
#include "lockstep/io/mapped_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep::train_bert {
namespace {

WordPieceOptions word_options(const TextFlags& flags) { return {.lower_case = !flags.cased}; }

/// Those that vocabularies are made from have to be text.
void require_text(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const MappedFile file(path);
    if (is_token_file(file.bytes())) {
      throw ArgumentError(str("--train-file ", path,
                              " holds tokens; give the vocabulary that they were made with by ",
                              "--vocab"));
    }
  }
}

Vocabulary vocabulary_of(const PretrainOptions& o, const std::string& kept) {
  if (!o.text.vocab.empty()) return Vocabulary::read(o.text.vocab);
  if (!kept.empty()) return Vocabulary::parse(kept, "the run's vocab.txt");
  require_text(o.text.train_files);
  return train_vocabulary(o.text.train_files,
                          {.size = o.vocab_size, .words = word_options(o.text)});
}

[[noreturn]] void too_few(int64_t sequences) {
  throw ArgumentError(str("--train-file: ", sequences, " sequences are too few to hold some of ",
                          "them out; give a --validation-file"));
}

/// Moves every `every`-th example from training to validation: files are often sorted by class.
void hold_out(TextData& data, int64_t every) {
  std::vector<int64_t> train, validation;
  for (int64_t i = 0; i < data.train->size(); ++i) {
    (i % every == every - 1 ? validation : train).push_back(i);
  }
  if (train.empty() || validation.empty()) too_few(data.train->size());
  data.validation = std::make_shared<DatasetPart>(data.train, std::move(validation));
  data.train = std::make_shared<DatasetPart>(data.train, std::move(train));
}

PretrainingOptions pretraining_options(const PretrainOptions& o) {
  return {.max_seq_length = o.text.max_seq_length,
          .packing = o.line_by_line ? Packing::kLines : Packing::kStream,
          .next_sentence = o.nsp,
          .masking = {.mlm_probability = o.mlm_probability, .whole_word_mask = o.whole_word_mask},
          .seed = o.trainer.seed};
}

void add_counts(const TokenRange& range, std::vector<double>& counts) {
  constexpr int64_t kChunk = 1 << 20;
  std::vector<int32_t> ids;
  for (int64_t begin = range.begin; begin < range.end; begin += kChunk) {
    ids.clear();
    range.corpus.read(begin, std::min(begin + kChunk, range.end), ids);
    for (const int32_t id : ids) ++counts[static_cast<size_t>(id)];
  }
}

}  // namespace

double unigram_loss(const TokenRange& from, const TokenRange& to) {
  const auto size = static_cast<size_t>(from.corpus.vocabulary().size());
  std::vector<double> known(size, 1.0), met(size, 0.0);
  add_counts(from, known);
  add_counts(to, met);
  double all_known = 0, all_met = 0, sum = 0;
  for (size_t i = 0; i < size; ++i) {
    all_known += known[i];
    all_met += met[i];
    sum += met[i] * std::log(known[i]);
  }
  return std::log(all_known) - sum / all_met;
}

TextData open_pretraining_text(const PretrainOptions& o, const std::string& kept) {
  TextData data;
  data.tokenizer = std::make_shared<WordPiece>(vocabulary_of(o, kept), word_options(o.text));
  const auto corpus = open_corpus(o.text.train_files, *data.tokenizer);
  PretrainingOptions options = pretraining_options(o);
  PretrainingOptions evaluation = options;
  if (o.eval_mlm_probability) evaluation.masking.mlm_probability = *o.eval_mlm_probability;
  if (o.text.validation_files.empty()) {
    // A stretch at the end: neighbouring sequences tell too much of each other.
    const double kept_share = 1 - o.text.validation_split_percentage / 100;
    const auto end =
        static_cast<int64_t>(std::floor(kept_share * static_cast<double>(corpus->tokens())));
    options.end = end;
    data.train = pretraining_dataset(corpus, options);
    evaluation.begin = end;
    data.validation = pretraining_dataset(corpus, evaluation);
    const int64_t sequences = data.train->size() + data.validation->size();
    if (data.train->size() == 0 || data.validation->size() == 0) too_few(sequences);
    data.unigram_loss = unigram_loss({*corpus, 0, end}, {*corpus, end, corpus->tokens()});
  } else {
    const auto other = open_corpus(o.text.validation_files, *data.tokenizer);
    data.train = pretraining_dataset(corpus, options);
    data.validation = pretraining_dataset(other, evaluation);
    data.unigram_loss = unigram_loss({*corpus, 0, corpus->tokens()}, {*other, 0, other->tokens()});
  }
  const Vocabulary& vocabulary = data.tokenizer->vocabulary();
  data.description =
      str(vocabulary.size(), " words, ", corpus->tokens(), " tokens in ", data.train->size(),
          " training and ", data.validation->size(), " validation sequences");
  data.traits = {{"--train-file (tokens)", str(corpus->tokens())},
                 {"--train-file (training sequences)", str(data.train->size())},
                 {"--vocab (hash)", str(vocabulary.hash())},
                 {"--max-seq-length", str(o.text.max_seq_length)},
                 {"--cased", o.text.cased ? "on" : "off"},
                 {"--mlm-probability", str(o.mlm_probability)},
                 {"--whole-word-mask", o.whole_word_mask ? "on" : "off"},
                 {"--line-by-line", o.line_by_line ? "on" : "off"},
                 {"--nsp", o.nsp ? "on" : "off"}};
  return data;
}

TextData open_labelled_text(const FinetuneOptions& o, const WordPiece& tokenizer) {
  TextData data;
  data.tokenizer = std::make_shared<WordPiece>(tokenizer);
  const auto open = [&](const char* flag, const std::vector<std::string>& files,
                        std::vector<std::string> class_names) {
    check(files.size() == 1, flag, ": wanted one file, got ", files.size());
    return labelled_text({.path = files[0],
                          .max_seq_length = o.text.max_seq_length,
                          .class_names = std::move(class_names)},
                         *data.tokenizer);
  };
  data.train = open("--train-file", o.text.train_files, {});
  if (o.text.validation_files.empty()) {
    const double share = o.text.validation_split_percentage / 100;
    hold_out(data, std::max<int64_t>(2, std::llround(1 / share)));
  } else {
    data.validation = open("--validation-file", o.text.validation_files, data.train->class_names());
  }
  data.description = str(data.train->size(), " training and ", data.validation->size(),
                         " validation texts of ", data.train->classes(), " classes");
  data.traits = {{"--train-file (texts)", str(data.train->size())},
                 {"--vocab (hash)", str(tokenizer.vocabulary().hash())},
                 {"--max-seq-length", str(o.text.max_seq_length)},
                 {"classes", str(data.train->classes())}};
  return data;
}

DistributedSampler text_sampler(const TextDataset& data, const TrainerFlags& flags, bool train,
                                int rank, int world) {
  return DistributedSampler({.size = data.size(),
                             .batch_size = train ? flags.batch_size : flags.eval_batch_size,
                             .rank = rank,
                             .world_size = world,
                             .seed = flags.seed,
                             .shuffle = train,
                             .last_batch = train ? last_batch_of(flags.uneven) : LastBatch::kKeep});
}

}  // namespace lockstep::train_bert

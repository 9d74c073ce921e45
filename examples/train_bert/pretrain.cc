#include "pretrain.h"

#include "model_config.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/masking.h"
#include "lockstep/io/file.h"
#include "lockstep/models/bert_exchange.h"
#include "lockstep/train/bert_task.h"
#include "lockstep/train/rank_zero.h"
#include "lockstep/train/trained_bert.h"
#include "lockstep/train/training_run.h"

#include <cstdio>
#include <filesystem>
#include <span>
#include <utility>

namespace lockstep::train_bert {
namespace {

constexpr uint64_t kMostVocabulary = 1 << 30;  // bytes

/// The vocabulary that the run to go on from was trained with; empty: there is none.
std::vector<std::byte> kept_vocabulary(const TrainerFlags& flags) {
  const std::string path = vocabulary_path(flags.output_dir);
  std::error_code ignored;
  if (flags.resume.empty() || flags.output_dir.empty() || !std::filesystem::exists(path, ignored)) {
    return {};
  }
  const std::vector<uint8_t> bytes = read_file(path, kMostVocabulary);
  const auto view = std::as_bytes(std::span(bytes));
  return {view.begin(), view.end()};
}

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

BertConfig config_of(const PretrainOptions& o, const TextData& text) {
  const BertConfig config = model_config(o.model, text.tokenizer->vocabulary().size());
  check_length(config, o.text.max_seq_length);
  return config;
}

std::string loss_text(double loss) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", loss);
  return text;
}

}  // namespace

std::vector<RunTrait> Pretraining::traits(const TextData& text, int world) const {
  std::vector<RunTrait> all = {{"task", "pretrain"}};
  for (auto& traits : {config_traits(config_of(options_, text)),
                       trainer_traits(options_.trainer, world), text.traits}) {
    all.insert(all.end(), traits.begin(), traits.end());
  }
  return all;
}

void Pretraining::preflight(int world) {
  const PretrainOptions& o = options_;
  preflight_flags(o.trainer, world);
  check_plan_file(o.plans);
  if (!o.trainer.output_dir.empty()) RunDir::check(run_dir_options(o.trainer));
  check_length(model_config(o.model), o.text.max_seq_length);
  TextData text = open_pretraining_text(o, as_text(kept_vocabulary(o.trainer)));
  const std::vector<RunTrait> own = traits(text, world);
  text_sampler(*text.train, o.trainer, true, 0, world);
  preflight_files(o.trainer, world, own, [&] {
    Generator rng(0);
    return BertForPreTraining(config_of(o, text), rng, o.nsp).named_parameters();
  });
  if (world == 1) text_ = std::move(text);
}

void Pretraining::run(ProcessGroup& group, const RankPlace& place) {
  const PretrainOptions& o = options_;
  const int rank = group.rank(), world = group.size();
  TrainingRun run("train_bert", o.trainer, group, place);
  if (!text_) {
    const auto kept =
        broadcast_from_rank_zero(group, "vocabulary", [&] { return kept_vocabulary(o.trainer); });
    text_ = open_pretraining_text(o, as_text(kept));
  }
  const TextData& text = *text_;
  const BertConfig config = config_of(o, text);
  const TextBatchOptions shape{.pad_to_max_length = !o.line_by_line};
  TextBatchOptions train_shape = shape;
  if (o.trainer.cuda_graph) {
    train_shape.fixed_masked = most_masked(o.text.max_seq_length, o.mlm_probability);
  }
  TextLoader train_data(
      text.train, text_sampler(*text.train, o.trainer, true, run.data_rank(), world), train_shape);
  TextLoader test_data(text.validation,
                       text_sampler(*text.validation, o.trainer, false, rank, world), shape);
  run.open();

  KeptPlans plans(o.plans, group);
  Generator rng(o.trainer.seed);
  BertForPreTraining model(config, rng, o.nsp);
  rng.set_state({.seed = o.trainer.seed + 1 + static_cast<uint64_t>(rank), .next_block = 0});
  run.wrap(model);
  if (run.run_dir() != nullptr) {
    write_tokenizer(run.run_dir()->path(), *text.tokenizer);
    write_bert_config(bert_config_path(run.run_dir()->path()), config, model.architecture());
  }
  const auto batch_fn = [&](const TextBatch& batch) {
    plans.look();
    return pretraining_result(model, to_device(batch, run.device()));
  };
  MaskedTextSource train_batches(train_data, batch_fn, o.nsp && joins(o.trainer.uneven)),
      test_batches(test_data, batch_fn);
  const TrainResult result = run.train({.train_data = train_batches,
                                        .test_data = test_batches,
                                        .rng = rng,
                                        .description = describe(config),
                                        .data = text.description,
                                        .traits = traits(text, world),
                                        .best_by = BestBy::kLoss,
                                        .words = {.accuracy = "masked accuracy",
                                                  .loss = "masked loss",
                                                  .counted = "masked tokens",
                                                  .second = "next-sentence"},
                                        .evaluate_first = true});
  const std::string begun =
      result.first_loss ? str(loss_text(*result.first_loss), " before training, ") : "";
  if (!plans.summary().empty()) run.say(plans.summary());
  run.say(str("masked loss ", begun, loss_text(result.test_loss), " now, ",
              loss_text(result.best_loss), " at best; ", loss_text(text.unigram_loss),
              " would be that of predicting by the tokens' frequencies alone"));
}

}  // namespace lockstep::train_bert

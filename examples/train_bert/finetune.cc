#include "finetune.h"

#include "model_config.h"
#include "text_data.h"

#include "lockstep/base/error.h"
#include "lockstep/models/bert_exchange.h"
#include "lockstep/train/bert_task.h"
#include "lockstep/train/trained_bert.h"
#include "lockstep/train/training_run.h"

#include <optional>
#include <utility>

namespace lockstep::train_bert {
namespace {

/// What a fine-tuning starts from: a model's folder, or a vocabulary and flags.
struct Setting {
  std::optional<TrainedBert> trained;
  BertConfig config;
  TextData text;
};

Setting open_setting(const FinetuneOptions& o) {
  Setting setting;
  const WordPieceOptions words{.lower_case = !o.text.cased};
  std::optional<WordPiece> tokenizer;
  if (!o.text.vocab.empty()) tokenizer.emplace(Vocabulary::read(o.text.vocab), words);
  if (!o.init_weights.empty()) {
    setting.trained = find_trained_bert(o.init_weights);
    setting.config = with_flags(setting.trained->config, o.model);
    if (!tokenizer) tokenizer = read_tokenizer(setting.trained->folder, setting.config);
    const int64_t tokens = tokenizer->vocabulary().size();
    check(tokens <= setting.config.vocab_size, "--vocab ", o.text.vocab, ": wanted at most the ",
          setting.config.vocab_size, " tokens of --init-weights, got ", tokens);
  } else {
    setting.config = model_config(o.model, tokenizer->vocabulary().size());
  }
  check_length(setting.config, o.text.max_seq_length);
  setting.text = open_labelled_text(o, *tokenizer);
  setting.config.num_labels = setting.text.train->classes();
  return setting;
}

std::vector<RunTrait> traits(const FinetuneOptions& o, const Setting& setting, int world) {
  std::vector<RunTrait> all = {{"task", "finetune"}};
  for (auto& traits :
       {config_traits(setting.config), trainer_traits(o.trainer, world), setting.text.traits}) {
    all.insert(all.end(), traits.begin(), traits.end());
  }
  return all;
}

std::string load_weights(const Setting& setting, Module& model) {
  const ImportReport report = load_trained_bert(*setting.trained, model, {.strict = false});
  return str("weights from ", setting.trained->weights, ": ", report.text());
}

}  // namespace

void preflight_finetuning(const FinetuneOptions& o, int world) {
  preflight_flags(o.trainer, world);
  check_plan_file(o.plans);
  const Setting setting = open_setting(o);
  text_sampler(*setting.text.train, o.trainer, true, 0, world);
  Generator rng(0);
  const auto model = [&] {
    return std::make_unique<BertForSequenceClassification>(setting.config, rng);
  };
  const bool resumes = preflight_files(o.trainer, world, traits(o, setting, world),
                                       [&] { return model()->named_parameters(); });
  if (!resumes && setting.trained) load_weights(setting, *model());
}

void finetune(const FinetuneOptions& o, ProcessGroup& group, const RankPlace& place) {
  const int rank = group.rank(), world = group.size();
  TrainingRun run("train_bert", o.trainer, group, place);
  const Setting setting = open_setting(o);
  const TextData& text = setting.text;
  TextLoader train_data(
      text.train, text_sampler(*text.train, o.trainer, true, run.data_rank(), world),
      o.trainer.cuda_graph ? TextBatchOptions{.fixed_masked = 0} : TextBatchOptions{});
  TextLoader test_data(text.validation,
                       text_sampler(*text.validation, o.trainer, false, rank, world));
  run.open();

  KeptPlans plans(o.plans, group);
  Generator rng(o.trainer.seed);
  BertForSequenceClassification model(setting.config, rng);
  rng.set_state({.seed = o.trainer.seed + 1 + static_cast<uint64_t>(rank), .next_block = 0});
  if (setting.trained) {
    run.init_weights("--init-weights", [&] { return load_weights(setting, model); });
  }
  run.wrap(model);
  if (run.run_dir() != nullptr) {
    write_tokenizer(run.run_dir()->path(), *text.tokenizer);
    write_bert_config(bert_config_path(run.run_dir()->path()), setting.config,
                      model.architecture());
  }
  const auto batch_fn = [&](const TextBatch& batch) {
    plans.look();
    return classification_result(model, to_device(batch, run.device()));
  };
  TextSource train_batches(train_data, batch_fn, joins(o.trainer.uneven)),
      test_batches(test_data, batch_fn);
  const TrainResult result = run.train({.train_data = train_batches,
                                        .test_data = test_batches,
                                        .rng = rng,
                                        .description = describe(setting.config),
                                        .data = text.description,
                                        .traits = traits(o, setting, world),
                                        .class_names = text.train->class_names(),
                                        .words = {.counted = "texts"}});
  if (!plans.summary().empty()) run.say(plans.summary());
  run.say(str("test accuracy ", format_percent(result.test_accuracy), " at the end, ",
              format_percent(result.best_accuracy), " at best"));
}

}  // namespace lockstep::train_bert

#include "options.h"

#include "lockstep/base/str.h"
#include "lockstep/base/version.h"
#include "lockstep/models/bert_config.h"
#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>

namespace lockstep::train_bert {
namespace {

constexpr double kMostTokens = 1 << 20;  // of a sequence

constexpr const char* kFooter = R"(
A file for --config has lines such as `batch-size = 32` below a line `[pretrain]`.
Examples:
  train_bert pretrain --train-file corpus.txt --output-dir runs/bert --nproc 2
  train_bert predict runs/bert "In the beginning [MASK] created the heaven and the earth."

Exit codes: 0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N; SIGTERM and SIGUSR1 (143, 138)
let a training save first.)";

constexpr const char* kPretrainFooter = R"(
Text files have a sentence or paragraph in each line and an empty line between documents. With --output-dir the vocabulary and
config.json are written beside the checkpoints; `lockstep export` makes a folder for Hugging Face of them.
Examples:
  train_bert pretrain --train-file corpus.txt --output-dir runs/bert --nproc 2
  train_bert pretrain --train-file corpus.txt --output-dir runs/bert --nproc 2 --resume auto
  train_bert pretrain --train-file corpus.tokens --vocab vocab.txt --model mini --max-steps 10000 --evaluate-every 500
  train_bert pretrain --train-file corpus.txt --nsp --optimizer lamb --lr 0.002 --whole-word-mask)";

constexpr const char* kFinetuneFooter = R"(
Files are TSV (text, label; or two texts and label) or JSONL ({"text": ..., "label": ...}).
Examples:
  train_bert finetune --train-file train.tsv --validation-file test.tsv --init-weights bert-base-uncased --lr 5e-5
  train_bert finetune --train-file reviews.jsonl --init-weights runs/bert --output-dir runs/reviews --nproc 2)";

constexpr const char* kPredictFooter = R"(
The folder of the checkpoint holds config.json and vocab.txt. A model that was fine-tuned gives classes instead.
Example:
  train_bert predict runs/bert "In the beginning [MASK] created the heaven and the [MASK].")";

constexpr const char* kEmbedFooter = R"(
A vector is the mean of the last layer over the tokens of the text, of length 1.
Examples:
  train_bert embed runs/bert sentences.txt -o vectors.npy
  train_bert embed all-MiniLM-L6-v2 sentences.txt)";

void add_model_flags(CLI::App& app, ModelFlags& o) {
  const auto size = within(1, 1e6, "a number from 1 to 10^6");
  const auto probability = within(0, 0.99, "a probability from 0 to 0.99");
  auto* model = app.add_option("--model", o.model,
                               "tiny (2 layers of 128), mini (4 x 256), small (4 x 512), medium "
                               "(8 x 512), base (12 x 768) or large (24 x 1024)");
  model->check(CLI::IsMember(bert_config_names()));
  app.add_option("--config-name", o.config,
                 "A config.json of Hugging Face instead; not given: --model")
      ->check(not_empty())
      ->excludes(model);
  const std::string as_there = "; not given: as the model has it";
  app.add_option("--hidden-size", o.hidden_size, "Width of the layers" + as_there)->check(size);
  app.add_option("--num-hidden-layers", o.num_hidden_layers, "Layers" + as_there)->check(size);
  app.add_option("--num-attention-heads", o.num_attention_heads, "Heads" + as_there)->check(size);
  app.add_option("--intermediate-size", o.intermediate_size,
                 "Width between the two linear layers of a block" + as_there)
      ->check(size);
  app.add_option("--max-position-embeddings", o.max_position_embeddings,
                 "The longest sequence that the model takes" + as_there)
      ->check(size);
  app.add_option("--hidden-dropout-prob", o.hidden_dropout_prob, "Dropout" + as_there)
      ->check(probability);
  app.add_option("--attention-probs-dropout-prob", o.attention_probs_dropout_prob,
                 "Dropout of the attention" + as_there)
      ->check(probability);
}

void add_text_flags(CLI::App& app, TextFlags& o, const std::string& kind) {
  app.add_option("--train-file", o.train_files, kind + " to train on")
      ->required()
      ->check(not_empty());
  auto* validation =
      app.add_option("--validation-file", o.validation_files,
                     kind + " to evaluate on; not given: a part of the training file is held out");
  validation->check(not_empty());
  app.add_option("--validation-split-percentage", o.validation_split_percentage,
                 "How much is held out")
      ->check(within(0.01, 50, "a value from 0.01 to 50"))
      ->excludes(validation);
  app.add_option("--max-seq-length", o.max_seq_length,
                 "Tokens of a sequence at most, with [CLS] and [SEP]")
      ->check(within(8, kMostTokens, "a number from 8 to 2^20"));
  app.add_flag("--cased", o.cased, "Keep case and accents, where a vocabulary is given or made");
}

/// All that does not depend on what is trained.
void add_shared_flags(CLI::App& app, TrainerFlags& o, PlanFlags& plans) {
  const TrainerWords words{.samples = "Sequences",
                           .epochs = "--epochs,--num-train-epochs",
                           .seeded = "the weights, the order of the data, masking and dropout"};
  add_loop_flags(app, o, words);
  add_plan_flags(app, plans);
  add_optimizer_flags(app, o.optimizer);
  add_seed_flag(app, o, words);
  add_process_flags(app, o);
  add_ddp_flags(app, o.ddp);
  add_group_flags(app, o.group);
  add_run_flags(app, o);
}

CLI::App* add_pretrain(CLI::App& app, PretrainOptions& o) {
  CLI::App* command = app.add_subcommand("pretrain", "Train a BERT on text: masked words");
  command->footer(kPretrainFooter);
  add_text_flags(*command, o.text, "Text, or tokens from lockstep tokenize,");
  auto* vocab = command->add_option("--vocab", o.text.vocab,
                                    "A vocab.txt; not given: made from the training text");
  vocab->check(not_empty());
  command->add_option("--vocab-size", o.vocab_size, "Tokens of a vocabulary that is made")
      ->check(within(16, 1 << 24, "a number from 16 to 2^24"))
      ->excludes(vocab);
  command->add_option("--mlm-probability", o.mlm_probability, "The share of tokens to be predicted")
      ->check(within(0.001, 0.9, "a probability from 0.001 to 0.9"));
  command
      ->add_option("--eval-mlm-probability", o.eval_mlm_probability,
                   "The same in evaluations: losses compare at one share only; not given: as in "
                   "training")
      ->check(within(0.001, 0.9, "a probability from 0.001 to 0.9"));
  command->add_flag("--whole-word-mask", o.whole_word_mask, "Mask all pieces of a word or none");
  auto* nsp = command->add_flag("--nsp", o.nsp,
                                "Pairs of sentences, and whether the second follows the first");
  command->add_flag("--line-by-line", o.line_by_line, "Each line is a sequence of its own")
      ->excludes(nsp);
  add_model_flags(*command, o.model);
  add_shared_flags(*command, o.trainer, o.plans);
  return command;
}

CLI::App* add_finetune(CLI::App& app, FinetuneOptions& o) {
  CLI::App* command = app.add_subcommand("finetune", "Train a BERT to tell classes of texts");
  command->footer(kFinetuneFooter);
  add_text_flags(*command, o.text, "TSV or JSONL files");
  command
      ->add_option("--init-weights", o.init_weights,
                   "Start from a model: the output directory of pretrain, a checkpoint in it, or a "
                   "folder of Hugging Face; a resumed run has its own")
      ->check(not_empty());
  command
      ->add_option("--vocab", o.text.vocab,
                   "A vocab.txt; not given: that of --init-weights, which without it is wanted")
      ->check(not_empty());
  add_model_flags(*command, o.model);
  command
      ->add_option("--classifier-pooling", o.model.classifier_pooling,
                   "What classes are told from: cls, the first token, or mean, over all tokens, "
                   "which suits a model pre-trained without --nsp; not given: as the model has it")
      ->check(CLI::IsMember({"cls", "mean"}));
  add_shared_flags(*command, o.trainer, o.plans);
  return command;
}

void add_checkpoint(CLI::App& command, std::string& checkpoint) {
  command
      .add_option("checkpoint", checkpoint,
                  "The output directory of a run, a checkpoint in it, or a folder of Hugging Face")
      ->required();
}

CLI::App* add_predict(CLI::App& app, PredictOptions& o) {
  CLI::App* command =
      app.add_subcommand("predict", "The most likely tokens in the place of each [MASK]");
  command->footer(kPredictFooter);
  add_checkpoint(*command, o.checkpoint);
  command->add_option("texts", o.texts, "Texts with [MASK] in them")->required();
  command->add_option("--top", o.top, "How many to show")->check(CLI::Range(1, 1000000));
  add_device_flag(*command, o.device);
  return command;
}

CLI::App* add_embed(CLI::App& app, EmbedOptions& o) {
  CLI::App* command = app.add_subcommand("embed", "A vector for each line of a file");
  command->footer(kEmbedFooter);
  add_checkpoint(*command, o.checkpoint);
  command->add_option("file", o.file, "A text in each line")->required();
  command
      ->add_option("-o,--output", o.output,
                   "FILE.tsv, FILE.npy or FILE.safetensors (tensor \"embeddings\"); not given: the "
                   "console, as TSV")
      ->check(not_empty());
  command
      ->add_option("--max-seq-length", o.max_seq_length, "Longer texts are cut to so many tokens")
      ->check(within(8, kMostTokens, "a number from 8 to 2^20"));
  command->add_option("--batch-size", o.batch_size, "Texts at once")->check(CLI::Range(1, 1 << 20));
  add_device_flag(*command, o.device);
  return command;
}

std::string wrong_model_flags(const CLI::App& command, const std::string& init_weights) {
  if (init_weights.empty()) return "";
  for (const char* name :
       {"--model", "--config-name", "--hidden-size", "--num-hidden-layers", "--num-attention-heads",
        "--intermediate-size", "--max-position-embeddings"}) {
    if (command.count(name) > 0)
      return str("--init-weights brings its own model; it takes no ", name);
  }
  return "";
}

std::string wrong_shared_flags(const CLI::App& command, const TrainerFlags& o,
                               const PlanFlags& plans) {
  const Device device = named_device(o.device);
  for (const std::string& wrong : {wrong_trainer_flags(command, o), wrong_plan_flags(plans, device),
                                   wrong_group_flags(o.group, device)}) {
    if (!wrong.empty()) return wrong;
  }
  return "";
}

std::string wrong_pretrain_flags(const CLI::App& command, const PretrainOptions& o) {
  const std::string wrong = wrong_shared_flags(command, o.trainer, o.plans);
  if (wrong.empty() && o.trainer.cuda_graph && o.trainer.grad_accum_steps > 1) {
    return "micro-batches weigh by their masked tokens, other ones in each step, which a graph "
           "would have for good; --cuda-graph takes no --grad-accum-steps here";
  }
  return wrong;
}

std::string wrong_finetune_flags(const CLI::App& command, const FinetuneOptions& o) {
  const std::string wrong = wrong_shared_flags(command, o.trainer, o.plans);
  if (!wrong.empty()) return wrong;
  if (o.init_weights.empty() && o.text.vocab.empty()) {
    return "wanted --init-weights, or --vocab to train from scratch";
  }
  if (!o.init_weights.empty() && o.text.cased) {
    return "--cased is for a --vocab without --init-weights, whose folder says it";
  }
  if (o.trainer.cuda_graph && o.model.classifier_pooling == "mean") {
    return "--classifier-pooling mean computes weights of the tokens on the host; it takes no "
           "--cuda-graph";
  }
  return wrong_model_flags(command, o.init_weights);
}

}  // namespace

Options::Options() {
  for (TrainerFlags* flags : {&pretrain.trainer, &finetune.trainer}) {
    flags->epochs = 3;
    flags->eval_batch_size = 32;
    flags->optimizer.optimizer = "adamw";
    flags->optimizer.no_bias_decay = true;
    flags->optimizer.clip_grad_norm = 1;
    flags->optimizer.lr_scheduler = "linear";
    flags->optimizer.warmup_steps = 100;
  }
  finetune.trainer.optimizer.warmup_steps = 20;
}

std::optional<int> parse(int argc, const char* const* argv, Options& o) {
  CLI::App app{"Trains BERT on text, data-parallel over one or more processes, and uses it.",
               "train_bert"};
  app.footer(kFooter);
  app.set_version_flag("--version",
                       str("train_bert ", version(), " (lockstep, ", build_commit(), ")"));
  add_config_option(app);
  const CLI::App* pretrain = add_pretrain(app, o.pretrain);
  const CLI::App* finetune = add_finetune(app, o.finetune);
  const CLI::App* predict = add_predict(app, o.predict);
  const CLI::App* embed = add_embed(app, o.embed);
  app.require_subcommand(1);

  const std::vector<std::string> arguments = normalize_flags(argc, argv);
  const auto code = parse_command_line(app, arguments, [&]() -> std::string {
    if (pretrain->parsed()) return wrong_pretrain_flags(*pretrain, o.pretrain);
    if (finetune->parsed()) return wrong_finetune_flags(*finetune, o.finetune);
    if (predict->parsed()) return wrong_device_flags(o.predict.device);
    if (embed->parsed()) return wrong_device_flags(o.embed.device);
    return "";
  });
  if (code) return code;
  const auto settle = [&](const CLI::App& command, TrainerFlags& flags) {
    flags.arguments = arguments;
    flags.settings = settings_of(command);
    complete_settings(flags.optimizer, flags.settings);
  };
  settle(*pretrain, o.pretrain.trainer);
  settle(*finetune, o.finetune.trainer);
  if (finetune->parsed()) o.command = Command::kFinetune;
  if (predict->parsed()) o.command = Command::kPredict;
  if (embed->parsed()) o.command = Command::kEmbed;
  return std::nullopt;
}

}  // namespace lockstep::train_bert

#include "lockstep/base/error.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/models/bert_exchange.h"
#include "lockstep/models/resnet_exchange.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/trained_bert.h"

#include "command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace lockstep::tools {
namespace {

constexpr const char* kBert = "bert";

struct Arguments {
  std::string from, to;
  bool ema = false;
};

/// "resnet18" or "bert", from what the trainer notes of its run.
std::string model_name(const std::string& path, const Checkpoint& checkpoint) {
  for (const auto& [name, value] : checkpoint.traits) {
    if (name == "--model" && (value.starts_with("resnet") || value == kBert)) return value;
  }
  throw IoError(str("export: ", path, ": wanted a checkpoint of train_resnet or train_bert, got ",
                    "one of another program"));
}

/// A folder of Hugging Face, from what lies beside the checkpoint.
void export_to_hugging_face(const Arguments& arguments, const Checkpoint& checkpoint) {
  const TrainedBert trained = find_trained_bert(arguments.from);
  const char* architecture = trained.classifies               ? "BertForSequenceClassification"
                             : trained.predicts_next_sentence ? "BertForPreTraining"
                                                              : "BertForMaskedLM";
  const WordPiece tokenizer = read_tokenizer(trained.folder, trained.config);
  save_bert(arguments.to, trained.config, architecture, checkpoint.model);
  write_tokenizer(arguments.to, tokenizer);
}

int export_checkpoint(const Arguments& arguments) {
  const std::string& path = arguments.from;
  std::error_code error;
  if (std::filesystem::equivalent(path, arguments.to, error)) {
    throw ArgumentError(str("export: the output is the checkpoint itself, ", path));
  }
  // Refuses what is none before it is read as a whole.
  const std::string model = model_name(path, read_checkpoint_header(path));
  Checkpoint checkpoint = read_checkpoint(path);
  if (arguments.ema && checkpoint.ema.empty()) {
    throw IoError(str("export: ", path, ": wanted averaged weights for --ema, got a run without",
                      " them; leave --ema out"));
  }
  if (arguments.ema) take_averages(checkpoint);
  const bool bert = model == kBert;
  if (bert) {
    export_to_hugging_face(arguments, checkpoint);
  } else {
    export_resnet(arguments.to, checkpoint.model, model);
  }
  std::printf("%s: %s of step %lld in %s format\n", arguments.to.c_str(), model.c_str(),
              static_cast<long long>(checkpoint.position.step),
              bert ? "Hugging Face's" : "torchvision's");
  return 0;
}

}  // namespace

Command export_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "export", "Write a ResNet in torchvision's format, or a BERT in Hugging Face's");
  app->footer(
      "Examples:\n"
      "  lockstep export runs/demo/best.safetensors resnet18.safetensors\n"
      "  lockstep export runs/bert/best.safetensors bert-folder\n"
      "and in Python: model.load_state_dict(safetensors.torch.load_file('resnet18.safetensors')),\n"
      "BertForMaskedLM.from_pretrained('bert-folder'). A BERT's config.json and vocab.txt are "
      "taken\n"
      "from beside the checkpoint.\n"
      "Models trained on images of up to 64 pixels have a 3x3 stem that torchvision's have not.");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("checkpoint", arguments->from, "A checkpoint of train_resnet or train_bert")
      ->required();
  app->add_option(
         "output", arguments->to,
         "The safetensors file to write, or for a BERT the folder; what is there is replaced")
      ->required();
  app->add_flag("--ema", arguments->ema, "The averaged weights of a run with --ema-decay");
  return {app, [arguments] { return export_checkpoint(*arguments); }};
}

}  // namespace lockstep::tools

#include "lockstep/base/error.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/models/resnet_exchange.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/trained_resnet.h"

#include "command.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace lockstep::tools {
namespace {

struct Arguments {
  std::string from, to;
  bool ema = false;
};

/// "resnet18", from what train_resnet notes of its run.
std::string model_name(const std::string& path, const Checkpoint& checkpoint) {
  for (const auto& [name, value] : checkpoint.traits) {
    if (name == "--model" && value.starts_with("resnet")) return value;
  }
  throw IoError(str("export: ", path, ": wanted a checkpoint of train_resnet, got one of another",
                    " program"));
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
  export_resnet(arguments.to, checkpoint.model, model);
  std::printf("%s: %s of step %lld in torchvision's format\n", arguments.to.c_str(), model.c_str(),
              static_cast<long long>(checkpoint.position.step));
  return 0;
}

}  // namespace

Command export_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "export", "Write a ResNet out of a checkpoint in torchvision's format");
  app->footer(
      "Example: lockstep export runs/demo/best.safetensors resnet18.safetensors\n"
      "and in Python: model.load_state_dict(safetensors.torch.load_file('resnet18.safetensors'))\n"
      "Models trained on images of up to 64 pixels have a 3x3 stem that torchvision's have not.");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("checkpoint", arguments->from, "A checkpoint of train_resnet")->required();
  app->add_option("output", arguments->to, "The safetensors file to write; replaced if there")
      ->required();
  app->add_flag("--ema", arguments->ema, "The averaged weights of a run with --ema-decay");
  return {app, [arguments] { return export_checkpoint(*arguments); }};
}

}  // namespace lockstep::tools

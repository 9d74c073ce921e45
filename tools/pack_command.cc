#include "lockstep/base/error.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/pack.h"

#include "command.h"

#include <cstdio>
#include <filesystem>
#include <memory>

namespace lockstep::tools {
namespace {

struct Arguments {
  std::string from, to, bad_images = "fatal";
  double val_fraction = 0;
  int64_t shard_mb = 256;
  PackOptions options;
};

/// The output folder: made, or there and empty.
void prepare(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    throw IoError(str("pack: cannot make the folder ", folder));
  if (!fs::is_empty(folder))
    throw IoError(str("pack: ", folder, " is not empty; choose another folder"));
}

int pack(const Arguments& arguments) {
  PackOptions options = arguments.options;
  options.shard_bytes = arguments.shard_mb << 20;
  options.bad_images = arguments.bad_images == "skip" ? BadImages::kSkip : BadImages::kFatal;
  const auto open = [&](Split split) {
    return image_folder(
        {.directory = arguments.from, .split = split, .val_fraction = arguments.val_fraction});
  };
  // Both are looked at before anything is written.
  const auto train = open(Split::kTrain), val = open(Split::kTest);
  prepare(arguments.to);
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const PackResult done =
        pack_images(split == Split::kTrain ? *train : *val, arguments.to, split, options);
    std::printf("%s: %lld images, %.1f MB in %u %s", split == Split::kTrain ? "train" : "val",
                static_cast<long long>(done.images), static_cast<double>(done.bytes) * 1e-6,
                done.shards, done.shards == 1 ? "shard" : "shards");
    if (done.skipped > 0) {
      std::printf(", %lld skipped", static_cast<long long>(done.skipped));
    }
    std::printf("\n");
  }
  return 0;
}

}  // namespace

Command pack_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "pack", "Turn a folder of images into shards that trainers map into memory");
  app->footer(
      "Example: lockstep pack photos packed --resize 256\n"
      "and then train_resnet --dataset packed --data-dir packed");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("folder", arguments->from,
                  "train/CLASS/IMAGE and val/CLASS/IMAGE, or CLASS/IMAGE")
      ->required();
  app->add_option("output", arguments->to, "A folder for the shards, new or empty")->required();
  app->add_option("--val-fraction", arguments->val_fraction,
                  "The share of images for evaluation, where there is no train/ and val/")
      ->check(CLI::Range(0.0, 1.0));
  app->add_option("--resize", arguments->options.resize,
                  "Keep decoded pixels, the shorter side reduced to this: larger files, less work "
                  "in training; 0: the files as they are")
      ->check(CLI::Range(0, 1 << 14));
  app->add_option("--shard-mb", arguments->shard_mb, "MiB of a shard, held in memory")
      ->check(CLI::Range(1, 1 << 20));
  app->add_option("--bad-images", arguments->bad_images,
                  "An image that cannot be decoded is fatal, or skip leaves it out")
      ->check(CLI::IsMember({"fatal", "skip"}));
  app->add_option("--max-image-pixels", arguments->options.decode.max_pixels,
                  "Images of more pixels are bad")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  return {app, [arguments] { return pack(*arguments); }};
}

}  // namespace lockstep::tools

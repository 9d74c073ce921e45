// train_resnet evaluate and predict, train_bert predict and embed with --device cuda: on the
// simulated device (tests/support/sim_device.h), whose kernels are the CPU's, they say what they
// say on the CPU, to the letter.
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/examples/train_bert/predict.h"
#include "lockstep/examples/train_resnet/evaluate.h"
#include "lockstep/io/file.h"
#include "lockstep/tensor/tf32.h"
#include "lockstep/tests/data/image_files.h"
#include "lockstep/tests/examples/bert_process.h"
#include "lockstep/tests/support/sim_device.h"
#include "lockstep/train/predict.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>

namespace lockstep {
namespace {

using namespace testing;
using std::chrono::microseconds;

const SimDeviceOptions kUneven{.compute = {microseconds(0), microseconds(40)}, .side = {}};

std::string text_of(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, uint64_t{1} << 24);
  return {bytes.begin(), bytes.end()};
}

/// What fn prints.
std::string printed(const std::string& dir, const std::function<void()>& fn) {
  const std::string path = dir + "/printed";
  std::fflush(stdout);
  const int before = dup(1);
  std::FILE* to = std::fopen(path.c_str(), "w");
  dup2(fileno(to), 1);
  try {
    fn();
  } catch (...) {
    std::fflush(stdout);
    dup2(before, 1);
    throw;
  }
  std::fflush(stdout);
  dup2(before, 1);
  close(before);
  std::fclose(to);
  return text_of(path);
}

/// What `fn` prints on the CPU and on the device.
void check_same(const std::string& dir, const std::function<void(const DeviceFlag&)>& fn) {
  const std::string wanted = printed(dir, [&] { fn({}); });
  CHECK(wanted != "");
  const SimDevice device(kUneven);
  CHECK(printed(dir, [&] { fn({.device = "cuda"}); }) == wanted);
}

/// A run of train_resnet on two classes of images; its checkpoint.
std::string trained_resnet(const std::string& dir) {
  for (int i = 0; i < 8; ++i) {
    for (const char* split : {"/train/", "/val/"}) {
      write_image(str(dir, "/images", split, "cat/", i, ".jpg"), golden_image("full.jpg"));
      write_image(str(dir, "/images", split, "dog/", i, ".png"), golden_image("palette.png"));
    }
  }
  const auto run = run_trainer({"--dataset", "folder", "--data-dir", dir + "/images",
                                "--image-size", "16", "--max-steps", "3", "--batch-size", "4",
                                "--threads", "1", "--output-dir", dir + "/run"});
  REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
  return dir + "/run/last.safetensors";
}

TEST_CASE("train_resnet evaluate and predict on a device say what they say on the CPU") {
  const TempDir dir;
  const std::string root = dir / "";
  const std::string checkpoint = trained_resnet(root);
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    check_same(root, [&](const DeviceFlag& device) {
      train_resnet::Options options;
      options.evaluation.checkpoint = checkpoint;
      options.evaluation.data.dataset.clear();
      options.evaluation.data.data_dir = root + "/images";
      options.trainer.eval_batch_size = 3;
      options.trainer.device = device;
      options.trainer.threads = 1;
      spawn(ranks, [&](ProcessGroup& group) {
        train_resnet::evaluate_checkpoint(options, group, RankPlace{});
      });
    });
  }
  check_same(root, [&](const DeviceFlag& device) {
    const PredictFlags flags{
        .checkpoint = checkpoint,
        .images = {root + "/images/val/cat/1.jpg", root + "/images/val/dog/1.png"},
        .data_dir = "",
        .device = device};
    CHECK(predict(flags, "test") == 0);
  });
}

TEST_CASE("train_bert predict and embed on a device say what they say on the CPU") {
  const TempDir dir;
  const std::string root = dir / "";
  write_file(dir / "corpus.txt", small_corpus(100));
  const auto run = run_bert(
      "pretrain", {"--train-file", dir / "corpus.txt", "--vocab-size", "100", "--batch-size", "8",
                   "--max-steps", "3", "--line-by-line", "--output-dir", dir / "run"});
  REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
  check_same(root, [&](const DeviceFlag& device) {
    train_bert::predict({.checkpoint = dir / "run",
                         .texts = {"[MASK] and [MASK]", "the [MASK]"},
                         .device = device});
  });
  check_same(root, [&](const DeviceFlag& device) {
    train_bert::embed({.checkpoint = dir / "run",
                       .file = dir / "corpus.txt",
                       .output = "",
                       .batch_size = 7,
                       .device = device});
  });

  write_file(dir / "train.tsv", small_labelled_text(40));
  const auto tuned = run_bert("finetune", {"--train-file", dir / "train.tsv", "--init-weights",
                                           dir / "run", "--max-seq-length", "16", "--batch-size",
                                           "8", "--max-steps", "2", "--output-dir", dir / "tuned"});
  REQUIRE_MESSAGE(tuned->exit_code() == 0, tuned->err());
  check_same(root, [&](const DeviceFlag& device) {
    train_bert::predict(
        {.checkpoint = dir / "tuned", .texts = {"the sun", "a moon"}, .device = device});
  });
}

TEST_CASE("--tf32 holds for the process that uses the device, and wants one") {
  {
    const SimDevice device(kUneven);
    use_device({.device = "cuda", .tf32 = true});
    CHECK(allow_tf32());
    use_device({.device = "cuda"});
    CHECK_FALSE(allow_tf32());
  }
  CHECK(wrong_device_flags({.device = "cuda", .tf32 = true}) == "");
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"--tf32"},
                                             {"evaluate", "x.safetensors", "--tf32"},
                                             {"predict", "x.safetensors", "a.png", "--tf32"}}) {
    const auto refused = run_trainer(arguments);
    CHECK(refused->exit_code() == 2);
    CHECK(refused->err().find("--tf32 is for a GPU; it wants --device cuda") != std::string::npos);
  }
  for (const char* command : {"predict", "embed"}) {
    const auto refused = run_bert(command, {"folder", "text", "--tf32"});
    CHECK(refused->exit_code() == 2);
    CHECK(refused->err().find("--tf32 is for a GPU") != std::string::npos);
  }
}

TEST_CASE("--cudnn-benchmark, --cudnn-plans and --nccl-register-buffers want a device") {
  for (const auto& flags : std::vector<std::vector<std::string>>{
           {"--cudnn-benchmark"}, {"--cudnn-plans", "plans.json"}, {"--nccl-register-buffers"}}) {
    const std::string wanted = flags[0] + (flags[0][2] == 'n' ? " is for GPUs" : " is for a GPU") +
                               "; it wants --device cuda";
    const auto resnet = run_trainer(flags);
    CHECK(resnet->exit_code() == 2);
    CHECK(resnet->err().find(wanted) != std::string::npos);
    for (const auto& [command, more] :
         std::vector<std::pair<const char*, std::vector<std::string>>>{
             {"pretrain", {}}, {"finetune", {"--vocab", "v"}}}) {
      std::vector<std::string> arguments{"--train-file", "text"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      arguments.insert(arguments.end(), flags.begin(), flags.end());
      const auto bert = run_bert(command, arguments);
      CHECK(bert->exit_code() == 2);
      CHECK(bert->err().find(wanted) != std::string::npos);
    }
  }
}

TEST_CASE("--cuda-graph is refused in a line where a step cannot be captured") {
  const auto check_refused = [](const auto& program, const std::string& why) {
    const std::string said = program->err();
    CHECK(program->exit_code() == 2);
    CHECK_MESSAGE(said.find(why) != std::string::npos, said);
    CHECK(std::count(said.begin(), said.end(), '\n') <= 2);
  };
  const std::string device = "it wants --device cuda", takes_none = "no --cuda-graph";
  check_refused(run_trainer({"--cuda-graph"}), device);
  check_refused(run_bert("pretrain", {"--train-file", "x", "--cuda-graph"}), device);
  for (const auto& [flags, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--nproc", "2"}, "the steps of one process"},
           {{"--on-nonfinite", "skip"}, takes_none},
           {{"--sync-bn"}, takes_none},
           {{"--layer-drop", "0.1"}, takes_none}}) {
    std::vector<std::string> arguments{"--device", "cuda", "--cuda-graph"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    check_refused(run_trainer(arguments), why);
  }
  check_refused(run_bert("pretrain", {"--train-file", "x", "--device", "cuda", "--cuda-graph",
                                      "--grad-accum-steps", "2"}),
                "takes no --grad-accum-steps");
  check_refused(run_bert("finetune", {"--train-file", "x", "--vocab", "y", "--device", "cuda",
                                      "--cuda-graph", "--classifier-pooling", "mean"}),
                takes_none);
}

}  // namespace
}  // namespace lockstep

// Trainer::capture_steps: a run whose steps are captured writes the checkpoint, byte for byte, of
// one whose steps the host runs, through short batches, evaluations with averages, and after it was
// stopped and went on.
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/data/memory_dataset.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/io/file.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/bert_task.h"
#include "lockstep/train/image_batch.h"
#include "lockstep/train/read_step_log.h"
#include "lockstep/train/step_log.h"
#include "lockstep/train/trainer.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

struct Job {
  std::string dir;
  bool capture = false;
  int64_t accumulate = 1;
  int stop_after = 0;  // steps; 0: to the end
  bool resume = false;
};

/// Of a kind of run: what differs between images and text.
struct Parts {
  Module& model;
  Optimizer& optimizer;
  BatchSource& train_data;
  BatchSource& test_data;
  Generator& rng;
};

void run(const Job& job, int64_t epochs, const Parts& parts) {
  const auto group = make_single_group();
  DataParallel ddp(parts.model, *group, {});
  Ema ema(parts.model.named_parameters(), {.decay = 0.9, .warmup = true});
  RunDir run_dir({.path = job.dir, .resume = job.resume});
  Timeline timeline;
  int steps = 0;
  Trainer trainer({.model = parts.model,
                   .ddp = ddp,
                   .group = *group,
                   .optimizer = parts.optimizer,
                   .schedule = warmup_schedule(6),
                   .train_data = parts.train_data,
                   .test_data = parts.test_data,
                   .rng = parts.rng,
                   .timeline = timeline,
                   .ema = &ema,
                   .run_dir = &run_dir,
                   .step_log_dir = job.dir,
                   .asked_to_stop = [&] { return ++steps == job.stop_after ? SIGTERM : 0; }},
                  {.epochs = epochs,
                   .grad_accum_steps = job.accumulate,
                   .clip_grad_norm = 0.5,
                   .log_interval = 3,
                   .agree_seconds = 0,
                   .nonfinite = {.action = OnNonfinite::kIgnore},
                   .capture_steps = job.capture});
  if (job.resume) trainer.resume(run_dir.last_checkpoint());
  trainer.run();
}

struct Net : Module {
  Generator init{1}, rng{5};
  BatchNorm2d norm{{.channels = 4}};
  Conv2d conv{{.in_channels = 1, .out_channels = 4, .kernel = 3}, init};
  Dropout dropout{0.2, rng};
  Linear fc{{.in_features = 4, .out_features = 3}, init};
  Net() {
    register_module("norm", norm);
    register_module("conv", conv);
    register_module("dropout", dropout);
    register_module("fc", fc);
  }
  Variable forward(const Variable& x) {
    return fc.forward(dropout.forward(global_avg_pool2d(relu(norm.forward(conv.forward(x))))));
  }
};

DistributedSampler sampler(int64_t size, bool shuffle) {
  return DistributedSampler({.size = size,
                             .batch_size = 4,
                             .seed = 3,
                             .shuffle = shuffle,
                             .last_batch = LastBatch::kKeep});
}

/// 13 images in batches of 4, so that each epoch ends with one of 1.
void train_images(const Job& job) {
  std::vector<uint8_t> pixels, labels;
  for (int i = 0; i < 13 * 16; ++i) pixels.push_back(static_cast<uint8_t>(i * i % 251));
  for (int i = 0; i < 13; ++i) labels.push_back(static_cast<uint8_t>(i % 3));
  const auto data = std::make_shared<MemoryDataset>(
      "images", pixels, labels, ImageFormat{4, 4, 1, {}}, 3, std::vector<Normalisation>{{}});
  DataLoader train_data(data, sampler(13, true), {.workers = 0});
  DataLoader test_data(data, sampler(13, false), {.workers = 0});
  Net net;
  net.to(Device::cuda());
  const auto batch_fn = [&](const Batch& loaded) {
    const Batch batch = to_device(loaded, Device::cuda());
    return image_result(net.forward(Variable(batch.inputs)), batch.targets);
  };
  ImageBatches train_batches(train_data, batch_fn, /*weighs=*/true),
      test_batches(test_data, batch_fn);
  Sgd optimizer(net.named_parameters(), {.lr = 0.1, .momentum = 0.9});
  run(job, 5, {net, optimizer, train_batches, test_batches, net.rng});
}

/// Texts of 4 to 7 tokens with 1 or 2 to be predicted.
struct Texts : TextDataset {
  int64_t size() const override { return 12; }
  void get(int64_t epoch, int64_t index, TextExample& example) const override {
    example.clear();
    for (int64_t i = 0; i < 4 + index % 4; ++i) {
      example.ids.push_back(static_cast<int32_t>(1 + (index * 5 + i * 3 + epoch) % 19));
    }
    for (int64_t i = 0; i <= index % 2; ++i) {
      example.masked_positions.push_back(static_cast<int32_t>(1 + i));
      example.masked_labels.push_back(static_cast<int32_t>((index + i) % 20));
    }
  }
  int64_t max_seq_length() const override { return 8; }
  int32_t pad_id() const override { return 0; }
};

void train_texts(const Job& job) {
  const auto texts = std::make_shared<Texts>();
  TextLoader train_data(texts, sampler(12, true), {.fixed_masked = 2});
  TextLoader test_data(texts, sampler(12, false));
  Generator rng(5);
  BertForPreTraining model({.vocab_size = 20,
                            .hidden_size = 16,
                            .num_hidden_layers = 1,
                            .num_attention_heads = 2,
                            .intermediate_size = 16,
                            .max_position_embeddings = 8},
                           rng, /*next_sentence=*/false);
  model.to(Device::cuda());
  const auto batch_fn = [&](const TextBatch& batch) {
    return pretraining_result(model, to_device(batch, Device::cuda()));
  };
  MaskedTextSource train_batches(train_data, batch_fn), test_batches(test_data, batch_fn);
  AdamW optimizer(model.named_parameters(), {.lr = 1e-2});
  run(job, 2, {model, optimizer, train_batches, test_batches, rng});
}

/// How many steps of a run were captured or replayed; of those nothing else is told.
size_t graphs_of(const std::string& dir) {
  const RankLog log = read_step_log(step_log_file(dir, 0), 0);
  size_t graphs = 0;
  for (const StepRecord& step : log.steps) {
    const bool whole = step.of(StepPart::kGraph) > 0;
    CHECK(whole == (step.of(StepPart::kForward) == 0));
    CHECK(whole == (step.of(StepPart::kBackward) == 0));
    graphs += whole;
  }
  return graphs;
}

/// Of the training lines.
std::vector<double> losses(const std::string& dir) {
  std::vector<double> losses;
  std::ifstream in(dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["kind"] == "train") losses.push_back(json["loss"]);
  }
  return losses;
}

void check_runs(void (*train)(const Job&), int64_t accumulate, int stop_after,
                size_t least_graphs) {
  on_cuda_device([&] {
    const TempDir dir;
    train({.dir = dir / "host", .accumulate = accumulate});
    train({.dir = dir / "captured", .capture = true, .accumulate = accumulate});
    train({.dir = dir / "stopped",
           .capture = true,
           .accumulate = accumulate,
           .stop_after = stop_after});
    train({.dir = dir / "stopped", .capture = true, .accumulate = accumulate, .resume = true});
    const auto checkpoint = [&](const char* run) {
      return read_file(dir / run + "/last.safetensors", 1 << 24);
    };
    CHECK(checkpoint("captured") == checkpoint("host"));
    CHECK(checkpoint("stopped") == checkpoint("host"));
    CHECK(!losses(dir / "host").empty());
    CHECK(losses(dir / "captured") == losses(dir / "host"));
    CHECK(losses(dir / "stopped") == losses(dir / "host"));
    CHECK(graphs_of(dir / "host") == 0);
    CHECK(graphs_of(dir / "captured") >= least_graphs);
  });
}

TEST_CASE("images: full batches and the short one of each epoch have a graph each") {
  check_runs(train_images, 1, 7, 10);
}

TEST_CASE("images: micro-batches are captured together") { check_runs(train_images, 2, 7, 4); }

TEST_CASE("masked texts, whose number of predicted tokens differs from batch to batch") {
  check_runs(train_texts, 1, 4, 2);
}

}  // namespace
}  // namespace lockstep

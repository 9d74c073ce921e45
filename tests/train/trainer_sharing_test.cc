// Trainer: stopped, and gone on with another number of ranks: each sample of an epoch once.
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/data/sampler.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/reduce/hooks/registry.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/trainer.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <csignal>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <span>

namespace lockstep {
namespace {

/// How often each sample of each epoch was trained on.
struct Seen {
  std::mutex mutex;
  std::map<int64_t, std::map<int64_t, int>> times;

  void add(int64_t epoch, std::span<const int64_t> samples) {
    const std::lock_guard lock(mutex);
    for (const int64_t sample : samples) ++times[epoch][sample];
  }
};

/// Batches of nothing but the numbers of their samples.
class Numbers : public BatchSource {
 public:
  Numbers(const SamplerOptions& options, Linear& model, Seen* seen)
      : sampler_(options), model_(model), seen_(seen) {}

  int64_t batches() const override { return sampler_.batches(); }
  void begin_epoch(int64_t epoch, int64_t start) override {
    epoch_ = epoch;
    loaded_ = run_ = start;
    order_ = sampler_.epoch(epoch);
  }
  bool load() override { return loaded_ < batches() && ++loaded_ > 0; }
  BatchResult run() override {
    const auto samples = order_.batch(run_++);
    if (samples.empty()) return {};
    if (seen_ != nullptr) seen_->add(epoch_, samples);
    const auto count = static_cast<int64_t>(samples.size());
    std::vector<float> values;
    for (const int64_t s : samples) values.push_back(static_cast<float>(s % 7) / 7);
    const Variable logits = model_.forward(Variable(Tensor::from(values, {count, 1})));
    return {.loss = cross_entropy(logits, Tensor::zeros({count}, DType::kI64)),
            .correct = Tensor::zeros({}, DType::kI64),
            .counted = count,
            .samples = count};
  }

 private:
  DistributedSampler sampler_;
  Linear& model_;
  Seen* seen_;
  SampledEpoch order_;
  int64_t epoch_ = 0, loaded_ = 0, run_ = 0;
};

struct Run {
  int ranks = 2;
  int64_t batch_size = 8;
  int64_t accumulate = 1;
  int64_t size = 1016;
  int64_t epochs = 2;
  int64_t stop_after = -1;  // steps of this start: rank 0 asks one step before
  std::string dir = {};
  std::string hook = {};
  bool resume = false;
};

/// Where it ended.
Position train(const Run& run, Seen& seen) {
  Position end;
  spawn(run.ranks, [&](ProcessGroup& group) {
    Generator init(1);
    Linear model({.in_features = 1, .out_features = 3}, init);
    const auto sampler = [&](int64_t size, bool training) {
      return SamplerOptions{.size = size,
                            .batch_size = run.batch_size,
                            .rank = group.rank(),
                            .world_size = group.size(),
                            .seed = 11,
                            .shuffle = training,
                            .last_batch = training ? LastBatch::kDrop : LastBatch::kKeep};
    };
    Numbers training(sampler(run.size, true), model, &seen),
        test(sampler(10, false), model, nullptr);
    std::unique_ptr<RunDir> dir;
    if (group.rank() == 0) {
      dir = std::make_unique<RunDir>(RunDirOptions{.path = run.dir, .resume = run.resume});
    }
    Timeline timeline;
    const auto hook = run.hook.empty() ? nullptr : parse_comm_hook(run.hook);
    DataParallel ddp(model, group, {.reduction = hook ? run_comm_hook(hook, group) : nullptr});
    Sgd optimizer(model.named_parameters(), {.lr = 0.01});
    Generator rng(50 + static_cast<uint64_t>(group.rank()));
    int64_t steps = 0;
    Trainer trainer({.model = model,
                     .ddp = ddp,
                     .group = group,
                     .optimizer = optimizer,
                     .schedule = constant_schedule(),
                     .train_data = training,
                     .test_data = test,
                     .rng = rng,
                     .timeline = timeline,
                     .comm_hook = hook.get(),
                     .run_dir = dir.get(),
                     .asked_to_stop = [&] { return steps++ == run.stop_after - 1 ? SIGTERM : 0; }},
                    {.epochs = run.epochs,
                     .grad_accum_steps = run.accumulate,
                     .batch_size = run.batch_size,
                     .log_interval = 7,
                     .agree_seconds = 0,
                     .traits = {{kRanksTrait, str(run.ranks)},
                                {kBatchTrait, str(run.batch_size)},
                                {kAccumulateTrait, str(run.accumulate)},
                                {"--hook", run.hook}}});
    if (run.resume) trainer.resume(run.dir + "/last.safetensors");
    trainer.run();
    if (group.rank() == 0) end = trainer.position();
  });
  return end;
}

/// Each of the first `count` samples of the epoch's order once, and no other.
void check_once(const Seen& seen, int64_t epoch, int64_t count, int64_t size) {
  const DistributedSampler sampler(
      {.size = size, .batch_size = size, .seed = 11, .last_batch = LastBatch::kKeep});
  const SampledEpoch order = sampler.epoch(epoch);
  std::map<int64_t, int> wanted;
  for (const int64_t sample : order.batch(0).subspan(0, static_cast<size_t>(count))) {
    wanted[sample] = 1;
  }
  CHECK(seen.times.at(epoch) == wanted);
}

int64_t samples_counted_in(const std::string& path) {
  int64_t lines = 0;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    lines += nlohmann::json::parse(line)["kind"] == "train";
  }
  return lines;
}

TEST_CASE("within an epoch: each sample once over both runs") {
  struct Case {
    Run before, after;
    int64_t samples;  // of an epoch, in the run that ends it
  };
  for (Case c : {Case{{.ranks = 2, .batch_size = 24}, {.ranks = 3, .batch_size = 16}, 1008},
                 Case{{.ranks = 4}, {.ranks = 2, .accumulate = 2}, 1008},  // 992 with four
                 Case{{.ranks = 2, .accumulate = 3}, {.ranks = 3, .accumulate = 2}, 1008},
                 Case{{.ranks = 3, .batch_size = 8}, {.ranks = 1, .batch_size = 24}, 1008}}) {
    for (const int64_t stop_after : {int64_t{1}, int64_t{9}}) {
      CAPTURE(c.before.ranks);
      CAPTURE(c.after.ranks);
      CAPTURE(stop_after);
      const testing::TempDir dir;
      Seen seen;
      c.before.dir = c.after.dir = dir / "run";
      c.before.stop_after = stop_after;
      c.after.resume = true;
      CHECK(train(c.before, seen).step == stop_after);
      const Position end = train(c.after, seen);
      CHECK(end.epoch == 2);
      for (const int64_t epoch : {0, 1}) check_once(seen, epoch, c.samples, 1016);
      CHECK(samples_counted_in(dir / "run/metrics.jsonl") >= end.step / 7);
    }
  }
}

TEST_CASE("between two epochs: with a global batch of another size") {
  const testing::TempDir dir;
  Seen seen;
  Run run{.ranks = 4, .epochs = 1, .dir = dir / "run"};
  CHECK(train(run, seen) == Position{.step = 31, .epoch = 1, .batch = 0});
  run.ranks = 3;
  run.epochs = 3;
  run.resume = true;
  CHECK(train(run, seen) == Position{.step = 3 * 42, .epoch = 3, .batch = 0});
  check_once(seen, 0, 992, 1016);
  check_once(seen, 1, 1008, 1016);
  check_once(seen, 2, 1008, 1016);
}

TEST_CASE("refused on every rank: other steps within an epoch, and a hook's state") {
  const testing::TempDir dir;
  Seen seen;
  Run run{.ranks = 4, .stop_after = 5, .dir = dir / "run"};
  train(run, seen);
  const std::string before = testing::read_text(dir / "run/last.safetensors");
  run.stop_after = -1;
  run.resume = true;
  run.ranks = 2;
  CHECK_THROWS_WITH_AS(train(run, seen), doctest::Contains("give --grad-accum-steps 2 or"),
                       ArgumentError);
  CHECK(testing::read_text(dir / "run/last.safetensors") == before);
  Run hooked{.ranks = 4, .stop_after = 5, .dir = dir / "hooked", .hook = "topk:ratio=0.5"};
  train(hooked, seen);
  hooked.stop_after = -1;
  hooked.resume = true;
  hooked.ranks = 2;
  hooked.accumulate = 2;
  CHECK_THROWS_WITH_AS(train(hooked, seen), doctest::Contains("keeps a state of each rank"),
                       ArgumentError);
}

TEST_CASE("what ranks have measured since the last line is not lost, nor is a generator's place") {
  const testing::TempDir dir;
  Seen seen;
  Run run{.ranks = 4, .stop_after = 5, .dir = dir / "run"};
  train(run, seen);
  const auto saved = read_checkpoint(dir / "run/last.safetensors");
  double counted = 0;
  for (int rank = 0; rank < 4; ++rank) counted += saved.meter.data<double>()[3 * rank + 2];
  CHECK(counted == 5 * 32);
  run = {.ranks = 2, .accumulate = 2, .stop_after = 1, .dir = dir / "run", .resume = true};
  train(run, seen);
  const auto later = read_checkpoint(dir / "run/last.safetensors");
  CHECK(later.meter.data<double>()[2] + later.meter.data<double>()[5] == 6 * 32);
  CHECK(later.rng.data<int64_t>()[2] == 51);  // rank 1's own
}

}  // namespace
}  // namespace lockstep

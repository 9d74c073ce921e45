// The loop with ranks as threads: a crash is an exception thrown out of a batch.
#include "lockstep/train/trainer.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/base/error.h"
#include "lockstep/data/datasets.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/reduce/hooks/registry.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <omp.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

namespace lockstep {
namespace {

struct Net : Module {
  Generator init{1};
  BatchNorm2d norm{{.channels = 1}};
  Conv2d conv{{.in_channels = 1, .out_channels = 16, .kernel = 5}, init};
  Linear fc{{.in_features = 16, .out_features = 10}, init};
  bool with_norm;

  explicit Net(bool with_norm) : with_norm(with_norm) {
    if (with_norm) register_module("norm", norm);
    register_module("conv", conv);
    register_module("fc", fc);
  }
  Variable forward(const Variable& x) {
    return fc.forward(global_avg_pool2d(relu(conv.forward(with_norm ? norm.forward(x) : x))));
  }
};

struct Setup {
  int ranks = 2;
  int64_t batch_size = 32;
  int64_t epochs = 3;
  int64_t accumulate = 1;
  int64_t log_interval = 3;
  int64_t checkpoint_every = 4;
  double lr = 0.02;
  std::string dir;
  int64_t crash_at_batch = -1;  // rank 0 throws in its n-th batch
  bool resume = false;
  double first_cap_mb = 1;
  std::string comm_hook = {};
  bool plain = false;  // no noise and no batch statistics: every split of a batch is the same
};

struct Crash : Error {
  using Error::Error;
};

struct Outcome {
  TrainResult result;
  int64_t resumed_step = 0;
  int64_t steps_per_epoch = 0;
};

/// Images with noise from the rank's own generator, so that a resumed run needs its position too.
Tensor with_noise(const Tensor& images, Generator& rng) {
  Tensor noisy = ops::clone(images);
  float* x = noisy.mutable_data<float>();
  const PhiloxRange range = rng.take(noisy.numel());
  for (int64_t i = 0; i < noisy.numel(); ++i) x[i] += range.uniform(i);
  return noisy;
}

void require_equal_replicas(const Net& net, ProcessGroup& group) {
  const Tensor mine = net.fc.weight.data();
  Tensor all = Tensor::empty(Shape{group.size() * mine.numel()}, mine.dtype());
  group.all_gather(all, mine.reshape({-1}))->wait();
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto offset = static_cast<size_t>(rank) * mine.nbytes();
    check(std::memcmp(all.raw() + offset, mine.raw(), mine.nbytes()) == 0, "rank ", group.rank(),
          " and rank ", rank, " hold other weights");
  }
}

Outcome train_rank(const Setup& setup, ProcessGroup& group) {
  omp_set_num_threads(1);  // the ranks are enough threads
  const auto loader = [&](Split split, int64_t batch, LastBatch last) {
    const auto data = digits(split);
    return std::make_unique<DataLoader>(data,
                                        DistributedSampler({.size = data->size(),
                                                            .batch_size = batch,
                                                            .rank = group.rank(),
                                                            .world_size = group.size(),
                                                            .seed = 3,
                                                            .shuffle = split == Split::kTrain,
                                                            .last_batch = last}),
                                        LoaderOptions{.workers = 1});
  };
  const auto train_data = loader(Split::kTrain, setup.batch_size, LastBatch::kDrop);
  const auto test_data = loader(Split::kTest, 77, LastBatch::kKeep);
  std::unique_ptr<RunDir> run_dir;
  if (group.rank() == 0) {
    run_dir = std::make_unique<RunDir>(RunDirOptions{.path = setup.dir, .resume = setup.resume});
  }
  Net net(!setup.plain);
  Timeline timeline;
  const auto hook = setup.comm_hook.empty() ? nullptr : parse_comm_hook(setup.comm_hook);
  DataParallel ddp(net, group,
                   {.first_bucket_cap_mb = setup.first_cap_mb,
                    .reduction = hook ? run_comm_hook(hook, group) : nullptr,
                    .timeline = &timeline});
  Sgd optimizer(net.named_parameters(), {.lr = setup.lr, .momentum = 0.9});
  Generator rng(100 + static_cast<uint64_t>(group.rank()));
  int64_t batches = 0;
  const auto result_of = [&](const Tensor& images, const Tensor& targets) {
    const Variable logits = net.forward(Variable(images));
    return BatchResult{cross_entropy(logits, targets), count_correct(logits.data(), targets),
                       targets.dim(0)};
  };
  Trainer trainer(
      {.model = net,
       .ddp = ddp,
       .group = group,
       .optimizer = optimizer,
       .schedule = warmup_schedule(40),
       .train_data = *train_data,
       .test_data = *test_data,
       .train_batch =
           [&](const Batch& batch) {
             if (group.rank() == 0 && batches++ == setup.crash_at_batch) throw Crash("crash");
             return result_of(setup.plain ? batch.inputs : with_noise(batch.inputs, rng),
                              batch.targets);
           },
       .test_batch = [&](const Batch& batch) { return result_of(batch.inputs, batch.targets); },
       .rng = rng,
       .timeline = timeline,
       .comm_hook = hook.get(),
       .run_dir = run_dir.get()},
      {.epochs = setup.epochs,
       .grad_accum_steps = setup.accumulate,
       .log_interval = setup.log_interval,
       .checkpoint_every = setup.checkpoint_every,
       .traits = {{"--batch-size", str(setup.batch_size)}, {"--comm-hook", setup.comm_hook}}});
  if (setup.resume) trainer.resume(setup.dir + "/last.safetensors");
  Outcome outcome;
  outcome.resumed_step = trainer.position().step;
  outcome.steps_per_epoch = trainer.steps_per_epoch();
  outcome.result = trainer.run();
  require_equal_replicas(net, group);
  return outcome;
}

/// Rank 0's outcome.
Outcome train(const Setup& setup) {
  Outcome outcome;
  spawn(setup.ranks, [&](ProcessGroup& group) {
    const Outcome mine = train_rank(setup, group);
    if (group.rank() == 0) outcome = mine;
  });
  return outcome;
}

/// The training losses that metrics.jsonl holds.
std::vector<double> losses(const std::string& dir) {
  std::vector<double> values;
  std::ifstream in(dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["kind"] == "train") values.push_back(json["loss"]);
  }
  return values;
}

TEST_CASE("a run that crashes and resumes ends with the same bytes as one that does not") {
  for (const int ranks : {1, 2, 3}) {
    for (const int64_t accumulate : {int64_t{1}, int64_t{4}}) {
      CAPTURE(ranks);
      CAPTURE(accumulate);
      const testing::TempDir dir;
      Setup setup{.ranks = ranks,
                  .accumulate = accumulate,
                  .checkpoint_every = accumulate == 1 ? 4 : 1,
                  .dir = dir / "whole"};
      const Outcome whole = train(setup);
      CHECK(whole.result.position.step == 3 * whole.steps_per_epoch);
      const auto epoch_batches = 1500 / (32 * ranks);
      int64_t last_resumed = -1;
      for (const int64_t crash : {int64_t{epoch_batches / 2}, int64_t{2 * epoch_batches - 9}}) {
        setup.dir = dir / str("crash", crash);
        setup.crash_at_batch = crash;
        CHECK_THROWS_AS(train(setup), Error);
        setup.crash_at_batch = -1;
        setup.resume = true;
        const Outcome resumed = train(setup);
        setup.resume = false;
        CHECK(resumed.resumed_step > last_resumed);
        last_resumed = resumed.resumed_step;
        for (const char* file : {"/last.safetensors", "/best.safetensors"}) {
          CHECK(testing::read_text(setup.dir + file) == testing::read_text((dir / "whole") + file));
        }
        CHECK(losses(setup.dir) == losses(dir / "whole"));
      }
    }
  }
}

TEST_CASE("a communication hook's state is in the checkpoint, and another hook is refused") {
  const testing::TempDir dir;
  Setup setup{.ranks = 3, .dir = dir / "whole", .comm_hook = "topk:ratio=0.05"};
  train(setup);
  setup.dir = dir / "crash";
  setup.crash_at_batch = 20;
  CHECK_THROWS_AS(train(setup), Error);
  setup.crash_at_batch = -1;
  setup.resume = true;
  setup.comm_hook = "topk:ratio=0.1";
  CHECK_THROWS_AS(train(setup), ArgumentError);
  setup.comm_hook = "topk:ratio=0.05";
  CHECK(train(setup).resumed_step == 20);
  for (const char* file : {"/last.safetensors", "/best.safetensors"}) {
    CHECK(testing::read_text(setup.dir + file) == testing::read_text((dir / "whole") + file));
  }
  const std::string bytes = testing::read_text(setup.dir + "/last.safetensors");
  const Checkpoint last = parse_checkpoint(std::as_bytes(std::span(bytes)), "last");
  CHECK(last.comm_hook.size() == 3 * 6);  // each rank's, of each parameter
}

TEST_CASE("metrics say how many bytes a step sent") {
  const testing::TempDir dir;
  const auto bytes_of = [&](const std::string& hook) {
    const Setup setup{.epochs = 1, .dir = dir / ("run" + hook), .comm_hook = hook};
    train(setup);
    std::ifstream in(setup.dir + "/metrics.jsonl");
    std::string line;
    std::getline(in, line);
    return nlohmann::json::parse(line)["comm_bytes"].get<double>();
  };
  // norm 1 + 1, conv 16 * 25 + 16, fc 160 + 10 elements.
  CHECK(bytes_of("") == 4 * 588);
  CHECK(bytes_of("topk:ratio=0.05") == 8 * (1 + 1 + 20 + 1 + 8 + 1));
  // With the padding to 64 elements.
  CHECK(bytes_of("bf16") == 2 * (64 + 64 + 448 + 64 + 192 + 64));
}

TEST_CASE("the metrics of a resumed run hold each interval and each epoch once") {
  const testing::TempDir dir;
  Setup setup{.dir = dir / "run", .crash_at_batch = 33};
  CHECK_THROWS_AS(train(setup), Error);
  setup.crash_at_batch = -1;
  setup.resume = true;
  const Outcome outcome = train(setup);
  std::multiset<int64_t> steps, epochs;
  std::ifstream in(setup.dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["kind"] == "epoch") {
      epochs.insert(json["epoch"].get<int64_t>());
      CHECK(json["test_samples"] == digits(Split::kTest)->size());
    } else {
      steps.insert(json["step"].get<int64_t>());
      CHECK(json["loss"].get<double>() > 0);
    }
  }
  CHECK(epochs == std::multiset<int64_t>{0, 1, 2});
  std::multiset<int64_t> wanted;
  for (int64_t step = 1; step <= outcome.result.position.step; ++step) {
    if (step % 3 == 0 || step % outcome.steps_per_epoch == 0) wanted.insert(step);
  }
  CHECK(steps == wanted);
}

TEST_CASE("accumulation over 4 micro-batches equals one batch of their size") {
  const testing::TempDir dir;
  // 1438 samples make 44 small global batches or 11 large ones: no group is short.
  const Setup large{.batch_size = 64, .epochs = 4, .lr = 0.2, .dir = dir / "large", .plain = true};
  Setup small = large;
  small.batch_size = 16;
  small.accumulate = 4;
  small.dir = dir / "small";
  const Outcome a = train(large), b = train(small);
  CHECK(a.result.position.step == b.result.position.step);
  // The sums are the same in another order.
  CHECK(b.result.test_loss == doctest::Approx(a.result.test_loss).epsilon(1e-4));
  CHECK(a.result.test_loss < 2.2);  // and something was learned
}

TEST_CASE("a short last group is a step of its own, and synchronises") {
  const testing::TempDir dir;
  const Outcome outcome =
      train({.batch_size = 64, .epochs = 2, .accumulate = 4, .dir = dir / "run", .plain = true});
  CHECK(outcome.steps_per_epoch == 3);  // 11 batches
  CHECK(outcome.result.position.step == 6);
}

TEST_CASE("a short group is averaged over the micro-batches that it has") {
  const testing::TempDir dir;
  // The 11 batches of an epoch are one group: a full one, or what there is of one of 20.
  Setup setup{.batch_size = 64, .accumulate = 11, .lr = 0.2, .dir = dir / "full", .plain = true};
  const Outcome full = train(setup);
  setup.accumulate = 20;
  setup.dir = dir / "cut";
  const Outcome cut = train(setup);
  CHECK(cut.result.position.step == full.result.position.step);
  CHECK(cut.result.test_loss == full.result.test_loss);
}

TEST_CASE("a finished run has nothing left to do and still tells its accuracy") {
  const testing::TempDir dir;
  Setup setup{.epochs = 1, .dir = dir / "run"};
  const Outcome first = train(setup);
  setup.resume = true;
  const Outcome again = train(setup);
  CHECK(again.resumed_step == first.result.position.step);
  CHECK(again.result.position == first.result.position);
  CHECK(again.result.test_accuracy == first.result.test_accuracy);
}

TEST_CASE("another kind of run, another world size, and a short file are refused on every rank") {
  const testing::TempDir dir;
  Setup setup{.epochs = 1, .dir = dir / "run"};
  train(setup);
  setup.resume = true;
  setup.batch_size = 16;
  CHECK_THROWS_AS(train(setup), ArgumentError);
  setup.batch_size = 32;
  setup.ranks = 3;
  CHECK_THROWS_AS(train(setup), ArgumentError);
  setup.ranks = 2;
  std::filesystem::resize_file(setup.dir + "/last.safetensors", 1000);
  CHECK_THROWS_AS(train(setup), Error);  // rank 0 reads it; the others lose their peer
  std::filesystem::remove(setup.dir + "/last.safetensors");
  CHECK_THROWS_AS(train(setup), Error);
}

TEST_CASE("a resumed run keeps the bucket plan of its checkpoint, and a run says which it used") {
  const testing::TempDir dir;
  const auto plan = [&](const char* run) {
    return testing::read_text((dir / run) + "/bucket_plan.json");
  };
  Setup setup{.epochs = 1, .dir = dir / "whole"};
  train(setup);
  setup.first_cap_mb = 0;
  setup.dir = dir / "single";
  train(setup);
  CHECK(plan("single").find("fc.bias") != std::string::npos);
  CHECK(plan("single") != plan("whole"));
  setup.first_cap_mb = 1;
  setup.resume = true;
  const std::string before = plan("single");
  for (const int64_t epochs : {1, 2}) {  // nothing left to train, and an epoch
    std::filesystem::remove(dir / "single/bucket_plan.json");
    setup.epochs = epochs;
    train(setup);
    CHECK(plan("single") == before);
  }

  const std::string file = dir / "single/last.safetensors";
  const std::string bytes = testing::read_text(file);
  Checkpoint checkpoint = parse_checkpoint(std::as_bytes(std::span(bytes)), file);
  CHECK(checkpoint.bucket_plan == before);
  checkpoint.bucket_plan.replace(before.find("fc.bias"), 7, "fc.blas");
  write_checkpoint(file, checkpoint);
  CHECK_THROWS_WITH_AS(train(setup), doctest::Contains("got \"fc.blas\""), IoError);
}

TEST_CASE("a position that training cannot come to is refused") {
  const testing::TempDir dir;
  Setup setup{.epochs = 1, .dir = dir / "run"};
  const int64_t steps = train(setup).steps_per_epoch;
  setup.resume = true;
  setup.epochs = 2;
  const std::string file = setup.dir + "/last.safetensors";
  const std::string bytes = testing::read_text(file);
  Checkpoint checkpoint = parse_checkpoint(std::as_bytes(std::span(bytes)), file);
  const Position whole = checkpoint.position;
  CHECK(whole == Position{.step = steps, .epoch = 1, .batch = 0});
  for (const Position& wrong :
       {Position{steps + 1, 1, 0}, Position{steps, INT64_MAX, 0}, Position{INT64_MAX, 1, 0},
        Position{steps, -1, 0}, Position{steps, 1, 1}, Position{-1, 0, 0}, Position{0, 1, 0}}) {
    CAPTURE(wrong.step);
    CAPTURE(wrong.epoch);
    CAPTURE(wrong.batch);
    checkpoint.position = wrong;
    write_checkpoint(file, checkpoint);
    CHECK_THROWS_AS(train(setup), IoError);
  }
  checkpoint.position = whole;
  write_checkpoint(file, checkpoint);
  CHECK(train(setup).resumed_step == steps);
}

TEST_CASE("a loss that is no longer a number ends the run") {
  const testing::TempDir dir;
  try {
    train({.lr = 1e30, .dir = dir / "run"});
    FAIL("went on");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("diverged") != std::string::npos);
  }
}

TEST_CASE("a run that has diverged leaves the checkpoint of before") {
  const testing::TempDir dir;
  CHECK_THROWS_AS(
      train({.log_interval = 1000, .checkpoint_every = 1, .lr = 1e30, .dir = dir / "run"}), Error);
  const std::string file = dir / "run/last.safetensors";
  const std::string bytes = testing::read_text(file);
  const Checkpoint left =
      parse_checkpoint(std::as_bytes(std::span(bytes.data(), bytes.size())), file);
  for (const double sum : left.meter.to_vector<double>()) CHECK(std::isfinite(sum));
}

}  // namespace
}  // namespace lockstep

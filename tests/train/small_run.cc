#include "lockstep/tests/train/small_run.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/data/datasets.h"
#include "lockstep/distributed/comm/emulated_link.h"
#include "lockstep/distributed/comm/paired_group.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/reduce/hooks/registry.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/sim_stream_group.h"
#include "lockstep/train/image_batch.h"

#include <omp.h>
#include <nlohmann/json.hpp>

#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>

namespace lockstep::testing {
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

/// Images with noise from the rank's own generator, so that a resumed run needs its position too.
Tensor with_noise(const Tensor& images, Generator& rng) {
  Tensor noisy = ops::clone(images);
  float* x = noisy.mutable_data<float>();
  const PhiloxRange range = rng.take(noisy.numel());
  for (int64_t i = 0; i < noisy.numel(); ++i) x[i] += range.uniform(i);
  return noisy;
}

void require_equal_replicas(const Net& net, ProcessGroup& group) {
  const Tensor mine = ops::to_device(net.fc.weight.data(), Device::cpu());
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
  const auto train_data = loader(Split::kTrain, setup.batch_size, setup.last_batch);
  const auto test_data = loader(Split::kTest, 77, LastBatch::kKeep);
  std::unique_ptr<RunDir> run_dir;
  if (group.rank() == 0) {
    run_dir = std::make_unique<RunDir>(RunDirOptions{.path = setup.dir, .resume = setup.resume});
  }
  Net net(!setup.plain);
  net.to(setup.device);
  Timeline timeline;
  const auto hook = setup.comm_hook.empty() ? nullptr : parse_comm_hook(setup.comm_hook);
  int64_t backwards = 0;
  // Before the reducer's own.
  const HookHandle spoil = net.conv.weight.on_grad_ready([&](const Variable& weight) {
    const int64_t k = backwards++;
    if (group.rank() != setup.spoil_rank || k < setup.spoil_from || k >= setup.spoil_to) return;
    Tensor eighth = weight.grad()->reshape({-1}).slice(7, 8);
    ops::fill(eighth, std::numeric_limits<double>::infinity());
  });
  NonfiniteWatch watch;
  BucketReduction reduction = hook ? run_comm_hook(hook, group) : nullptr;
  if (!setup.device.is_cpu()) {
    reduction = watch.watched([&](const GradBucket& b) { return group.all_reduce(b.flat); });
  }
  DataParallel ddp(net, group,
                   {.mode = setup.mode,
                    .first_bucket_cap_mb = setup.first_cap_mb,
                    .reduction = reduction,
                    .nonfinite = [&](const GradBucket& bucket) { watch.note(bucket); },
                    .timeline = &timeline});
  Generator rng(100 + static_cast<uint64_t>(group.rank()));
  int64_t batches = 0, test_batches_run = 0;
  int asked = 0;
  const auto ask_if = [&](bool now) {
    if (now && group.rank() == setup.ask_rank) asked = SIGTERM;
  };
  const auto result_of = [&](const Tensor& images, const Tensor& labels) {
    const auto [inputs, targets] = to_device(Batch{images, labels}, setup.device);
    const Variable logits = net.forward(Variable(inputs));
    return image_result(logits, targets);
  };
  const auto train_batch = [&](const Batch& batch) {
    if (group.rank() == 0 && batches == setup.crash_at_batch) throw Crash("crash");
    ask_if(batches++ == setup.ask_at_batch);
    return result_of(setup.plain ? batch.inputs : with_noise(batch.inputs, rng), batch.targets);
  };
  ImageBatches train_batches(*train_data, train_batch, setup.last_batch == LastBatch::kKeep);
  ImageBatches test_batches(*test_data, [&](const Batch& batch) {
    ask_if(test_batches_run++ == setup.ask_at_test_batch);
    return result_of(batch.inputs, batch.targets);
  });
  Sgd optimizer(net.named_parameters(), {.lr = setup.lr, .momentum = 0.9});
  Trainer trainer(
      {.model = net,
       .ddp = ddp,
       .group = group,
       .optimizer = optimizer,
       .schedule = warmup_schedule(40),
       .train_data = train_batches,
       .test_data = test_batches,
       .rng = rng,
       .timeline = timeline,
       .comm_hook = hook.get(),
       .nonfinite = &watch,
       .run_dir = run_dir.get(),
       .step_log_dir = setup.dir,
       .asked_to_stop = setup.ask_rank < 0 ? nullptr : std::function<int()>([&] { return asked; }),
       .now = setup.clock ? setup.clock(group.rank()) : SaveTimer::Clock::now},
      {.epochs = setup.epochs,
       .max_steps = setup.max_steps,
       .grad_accum_steps = setup.accumulate,
       .log_interval = setup.log_interval,
       .checkpoint_every = setup.checkpoint_every,
       .checkpoint_minutes = setup.checkpoint_minutes,
       .agree_seconds = setup.agree_seconds,
       .keep_checkpoints = setup.keep_checkpoints,
       .evaluate_every = setup.evaluate_every,
       .evaluate_first = setup.evaluate_first,
       .best_by = setup.best_by,
       .nonfinite = setup.nonfinite,
       .check_replicas_every = setup.check_replicas_every,
       .traits = {{"--batch-size", str(setup.batch_size)}, {"--comm-hook", setup.comm_hook}}});
  if (setup.resume) trainer.resume(setup.dir + "/last.safetensors");
  Outcome outcome;
  outcome.resumed_step = trainer.position().step;
  outcome.steps_per_epoch = trainer.steps_per_epoch();
  outcome.result = trainer.run();
  require_equal_replicas(net, group);
  return outcome;
}

}  // namespace

Outcome train(const Setup& setup) {
  Outcome outcome;
  spawn(setup.ranks, [&](ProcessGroup& ranks) {
    std::unique_ptr<ProcessGroup> linked;
    if (!setup.link.empty()) {
      linked = make_emulated_link(ranks.split(0, ranks.rank()), parse_link(setup.link));
    }
    std::unique_ptr<ProcessGroup> moves, by_device;
    if (!setup.device.is_cpu()) {
      moves = ranks.split(0, ranks.rank());
      by_device = ranks.size() == 1 ? make_single_group()
                                    : make_paired_group(ranks.split(0, ranks.rank()),
                                                        std::make_unique<SimStreamGroup>(*moves));
    }
    ProcessGroup& group = linked != nullptr ? *linked : by_device != nullptr ? *by_device : ranks;
    const Outcome mine = train_rank(setup, group);
    if (group.rank() == 0) outcome = mine;
  });
  return outcome;
}

std::vector<double> losses(const std::string& dir) {
  std::vector<double> values;
  std::ifstream in(dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["kind"] == "train") values.push_back(json["loss"]);
  }
  return values;
}

}  // namespace lockstep::testing

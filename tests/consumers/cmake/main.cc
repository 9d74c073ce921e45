// An application with a model and data of its own: it tells lying stripes from standing ones. Its
// ranks are processes that RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCKSTEP_TOKEN describe.
// When the other one is lost, it goes on alone.
//   stripes [STEP]    rank 1 dies before that step, to show what happens then
#include <lockstep/autograd/ops/activation.h>
#include <lockstep/autograd/ops/loss.h>
#include <lockstep/autograd/ops/pool.h>
#include <lockstep/base/log.h>
#include <lockstep/base/version.h>
#include <lockstep/data/loader.h>
#include <lockstep/distributed/comm/make_process_group.h>
#include <lockstep/distributed/data_parallel.h>
#include <lockstep/nn/nn.h>
#include <lockstep/optim/sgd.h>
#include <lockstep/tensor/ops/metrics.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace ls = lockstep;

// Grey images of 8 x 8 pixels: stripes two pixels wide, moved by chance, and noise.
class Stripes : public ls::Dataset {
 public:
  int64_t size() const override { return 512; }
  int64_t classes() const override { return 2; }
  ls::ImageFormat format() const override { return {.height = 8, .width = 8, .channels = 1}; }
  int64_t get(int64_t index, std::span<float> image) const override {
    ls::Generator random(static_cast<uint64_t>(index));
    const ls::PhiloxRange noise = random.take(65);
    const int64_t label = index % 2, phase = noise.bits(64) % 4;
    for (int64_t i = 0; i < 64; ++i) {
      const int64_t across = label == 0 ? i / 8 : i % 8;
      image[i] = static_cast<float>((across + phase) / 2 % 2) + noise.uniform(i) - 1;
    }
    return label;
  }
};

struct Net : ls::Module {
  ls::Generator random{7};
  ls::Conv2d conv{{.in_channels = 1, .out_channels = 8, .kernel = 3, .padding = 1}, random};
  ls::Linear fc{{.in_features = 8, .out_features = 2}, random};

  Net() { register_module("conv", conv), register_module("fc", fc); }
  ls::Variable operator()(const ls::Tensor& images) {
    return fc(ls::global_avg_pool2d(relu(conv(ls::Variable(images)))));
  }
};

double accuracy(Net& net, const std::shared_ptr<const Stripes>& data) {
  const ls::NoGrad evaluating;
  ls::DataLoader loader(data, ls::DistributedSampler({.size = data->size(), .batch_size = 64}), {});
  loader.begin_epoch(0);
  int64_t right = 0;
  while (auto batch = loader.next()) {
    right += ls::ops::count_correct(net(batch->inputs).data(), batch->targets);
  }
  return static_cast<double>(right) / static_cast<double>(data->size());
}

class Training {
 public:
  explicit Training(int death) : death_(death) {}

  // Up to the last step, or until a peer is lost; then the model is as the last whole step left it.
  void run(ls::ProcessGroup& group) {
    ls::DataParallel ddp(net_, group);
    const ls::DistributedSampler sampler({.size = data_->size(),
                                          .batch_size = 32 / group.size(),
                                          .rank = group.rank(),
                                          .world_size = group.size()});
    ls::DataLoader loader(data_, sampler, {});
    while (step_ < 192) {
      loader.begin_epoch(step_ / loader.batches(), step_ % loader.batches());
      while (auto batch = loader.next()) {
        if (step_ == death_ && group.rank() == 1) std::raise(SIGKILL);
        optimizer_.zero_grad();
        ls::cross_entropy(net_(batch->inputs), batch->targets).backward();
        optimizer_.step();
        ++step_;
      }
    }
  }

  int64_t step() const { return step_; }
  double accuracy() { return ::accuracy(net_, data_); }

 private:
  const int death_;
  const std::shared_ptr<const Stripes> data_ = std::make_shared<Stripes>();
  Net net_;
  ls::Sgd optimizer_{net_.named_parameters(), {.lr = 0.1, .momentum = 0.9}};
  int64_t step_ = 0;
};

int main(int argc, char** argv) try {
  ls::set_log_sink([](ls::LogLevel, std::string_view message) {
    std::printf("lockstep says: %.*s\n", static_cast<int>(message.size()), message.data());
  });
  std::printf("lockstep %s\n", ls::version());
  Training training(argc > 1 ? std::atoi(argv[1]) : -1);
  int rank = 0;
  try {
    const auto group = ls::make_process_group();
    rank = group->rank();
    training.run(*group);
  } catch (const ls::CommError& error) {
    std::printf("rank %d: step %d: %s\n", rank, static_cast<int>(training.step()), error.what());
    const auto alone = ls::make_process_group({.rank = 0, .world_size = 1}, "");
    training.run(*alone);
    std::printf("rank %d: trained on alone\n", rank);
  }
  std::printf("rank %d: step %d, accuracy %.3f\n", rank, static_cast<int>(training.step()),
              training.accuracy());
  return training.accuracy() > 0.95 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "stripes: %s\n", error.what());
  return 1;
}

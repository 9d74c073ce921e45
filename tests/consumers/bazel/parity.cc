// An application that learns whether a row of bits has an odd sum. Its two ranks are this process
// and a child of it; when the child is lost, it goes on alone.
//   parity [STEP]    the child dies before that step
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/data/loader.h"
#include "lockstep/distributed/comm/job_token.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/adam.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

using namespace lockstep;

constexpr int kBits = 6, kRows = 1 << kBits, kSteps = 400;

struct Rows : Dataset {
  int64_t size() const override { return kRows; }
  int64_t classes() const override { return 2; }
  ImageFormat format() const override { return {.height = 1, .width = 1, .channels = kBits}; }
  int64_t get(int64_t index, std::span<float> row) const override {
    int64_t sum = 0;
    for (int b = 0; b < kBits; ++b) {
      row[static_cast<size_t>(b)] = static_cast<float>(index >> b & 1) * 2 - 1;
      sum += index >> b & 1;
    }
    return sum % 2;
  }
};

struct Net : Module {
  Generator random{11};
  Linear hidden{{.in_features = kBits, .out_features = 64}, random};
  Linear out{{.in_features = 64, .out_features = 2}, random};

  Net() { register_module("hidden", hidden), register_module("out", out); }
  Variable operator()(const Tensor& rows) {
    return out(relu(hidden(Variable(rows.reshape({rows.dim(0), kBits})))));
  }
};

struct Training {
  Net net;
  Adam optimizer{net.named_parameters(), {.lr = 0.01}};
  int step = 0;
  double loss = 0;

  void run(ProcessGroup& group, int death) {
    DataParallel ddp(net, group);
    DataLoader loader(std::make_shared<Rows>(),
                      DistributedSampler({.size = kRows,
                                          .batch_size = kRows / group.size(),
                                          .rank = group.rank(),
                                          .world_size = group.size()}),
                      {});
    for (; step < kSteps; ++step) {  // an epoch is one batch
      loader.begin_epoch(step);
      const Batch batch = *loader.next();
      if (step == death) ::_exit(3);
      optimizer.zero_grad();
      const Variable mean = cross_entropy(net(batch.inputs), batch.targets);
      mean.backward();
      optimizer.step();
      loss = mean.data().item();
    }
  }
};

int main(int argc, char** argv) try {
  const int death = argc > 1 ? std::atoi(argv[1]) : -1;
  RankInfo self{.rank = 0, .world_size = 2, .master_addr = "127.0.0.1"};
  self.master_port = TcpStore({.serve = true, .token = "only to find a port"}).port();
  const std::string token = make_job_token();
  const pid_t child = ::fork();  // before there are threads
  if (child == 0) self.rank = 1;

  Training training;
  try {
    training.run(*make_process_group(self, token), self.rank == 1 ? death : -1);
  } catch (const CommError& error) {
    std::printf("rank %d: step %d: %s\n", self.rank, training.step, error.what());
    training.run(*make_process_group({.rank = 0, .world_size = 1}, ""), -1);
  }
  if (child == 0) return 0;
  int status = 0;
  ::waitpid(child, &status, 0);
  std::printf("step %d, loss %.4f; the child's status %d\n", training.step, training.loss, status);
  return training.step == kSteps && training.loss < 0.1 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "parity: %s\n", error.what());
  return 1;
}

// An application that tells points inside a ring from those outside, with two processes, and keeps
// two: rank 0 starts rank 1, and starts it again when it is lost. Everything about its ranks it
// knows itself.
//   ring [STEP]                            rank 0; its peer dies before that step, in its first
//   life ring --peer PORT TOKEN STATE [STEP]    how rank 0 starts rank 1; STATE: - or a file to go
//   on from
#include <lockstep/autograd/ops/activation.h>
#include <lockstep/autograd/ops/loss.h>
#include <lockstep/data/loader.h>
#include <lockstep/distributed/comm/job_token.h>
#include <lockstep/distributed/comm/make_process_group.h>
#include <lockstep/distributed/comm/tcp_store.h>
#include <lockstep/distributed/data_parallel.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/nn/nn.h>
#include <lockstep/optim/adam.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

using lockstep::Linear, lockstep::Variable, lockstep::RankInfo;

// Points of the square, one "image" of two values each.
class Points : public lockstep::Dataset {
 public:
  int64_t size() const override { return 2048; }
  int64_t classes() const override { return 2; }
  lockstep::ImageFormat format() const override { return {.height = 1, .width = 1, .channels = 2}; }
  int64_t get(int64_t index, std::span<float> point) const override {
    const lockstep::PhiloxRange random = lockstep::Generator(5000 + index).take(2);
    point[0] = 2 * random.uniform(0) - 1, point[1] = 2 * random.uniform(1) - 1;
    const float radius = point[0] * point[0] + point[1] * point[1];
    return 0.2f < radius && radius < 0.8f;
  }
};

class Net : public lockstep::Module {
 public:
  Net() {
    register_module("first", first_), register_module("second", second_);
    register_module("last", last_);
  }
  Variable logits(const lockstep::Tensor& points) {
    const Variable x(points.reshape({points.dim(0), 2}));
    return last_(relu(second_(relu(first_(x)))));
  }

 private:
  lockstep::Generator random_{3};
  Linear first_{{.in_features = 2, .out_features = 32}, random_};
  Linear second_{{.in_features = 32, .out_features = 32}, random_};
  Linear last_{{.in_features = 32, .out_features = 2}, random_};
};

struct Training {
  static constexpr int64_t kSteps = 600;
  static constexpr const char* kStateFile = "ring_state.safetensors";

  Net net;
  lockstep::Adam optimizer{net.named_parameters(), {.lr = 0.005}};
  int64_t step = 0;
  double loss = 0;

  // The model itself travels when DataParallel is made; the optimizer's state has to be fetched.
  void save() {
    lockstep::write_safetensors(kStateFile, optimizer.state().tensors,
                                {{"step", std::to_string(step)}});
  }
  void load(const std::string& file) {
    const auto read = lockstep::read_safetensors(file);
    auto state = optimizer.state();
    state.tensors = read.tensors;
    optimizer.load_state(state);
    step = std::stoll(read.metadata.at("step"));
  }

  void run(lockstep::ProcessGroup& group, int64_t death) {
    lockstep::DataParallel ddp(net, group);
    lockstep::DataLoader loader(
        std::make_shared<Points>(),
        lockstep::DistributedSampler(
            {.size = 2048, .batch_size = 32, .rank = group.rank(), .world_size = group.size()}),
        {});
    while (step < kSteps) {
      loader.begin_epoch(step / loader.batches(), step % loader.batches());
      while (step < kSteps) {
        const auto batch = loader.next();
        if (!batch) break;
        if (step == death) std::raise(SIGKILL);
        optimizer.zero_grad();
        const Variable mean = cross_entropy(net.logits(batch->inputs), batch->targets);
        mean.backward();
        optimizer.step();
        loss = mean.data().item();
        ++step;
      }
    }
  }
};

// Starts this program as rank 1.
pid_t start_peer(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"ring", "--peer"});
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::execv("/proc/self/exe", argv.data());
  ::_exit(127);
}

uint16_t free_port() {
  return lockstep::TcpStore({.serve = true, .token = "only to find a port"}).port();
}

int lead(const std::string& death) {
  Training training;
  std::string state = "-";
  for (int life = 0; life < 2; ++life) {
    const uint16_t port = free_port();
    const std::string token = lockstep::make_job_token();
    const pid_t peer =
        start_peer({std::to_string(port), token, state, life == 0 ? death : std::string("-1")});
    try {
      const RankInfo self{
          .rank = 0, .world_size = 2, .master_addr = "127.0.0.1", .master_port = port};
      const auto group = lockstep::make_process_group(self, token);
      training.run(*group, -1);
    } catch (const lockstep::CommError& error) {
      std::printf("step %d: %s\n", static_cast<int>(training.step), error.what());
      training.save();
      state = Training::kStateFile;
    }
    int status = 0;
    ::waitpid(peer, &status, 0);
    std::printf("peer %d of 2 ended with status %d\n", life + 1, status);
    if (training.step == Training::kSteps) break;
  }
  std::printf("step %d, loss %.4f\n", static_cast<int>(training.step), training.loss);
  return training.step == Training::kSteps && training.loss < 0.2 ? 0 : 1;
}

int follow(const std::vector<std::string>& arguments) {
  Training training;
  if (arguments[2] != "-") training.load(arguments[2]);
  const RankInfo self{.rank = 1,
                      .world_size = 2,
                      .master_addr = "127.0.0.1",
                      .master_port = static_cast<uint16_t>(std::stoi(arguments[0]))};
  const auto group = lockstep::make_process_group(self, arguments[1]);
  training.run(*group, std::stoi(arguments[3]));
  return 0;
}

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 5 && arguments[0] == "--peer") {
    return follow({arguments.begin() + 1, arguments.end()});
  }
  return lead(arguments.empty() ? "-1" : arguments[0]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "ring: %s\n", error.what());
  return 1;
}

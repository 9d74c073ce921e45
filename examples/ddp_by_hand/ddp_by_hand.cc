// Data parallelism by hand: what DataParallel does, from the primitives, to be read in one sitting.
//
//   naive       after backward, one all-reduce for each gradient: many small messages
//   bucketed    after backward, one all-reduce for each bucket of gradients: few large messages
//   overlapped  a bucket is sent once backward has completed it: it travels while backward goes on
//
// Two ranks, threads of this process, train one network each way and end with the same loss. Here a
// message is a copy and hiding it gains nothing; on a network the last way is the fastest.

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/record.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/nn/linear.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/random.h"

#include <chrono>
#include <cstdio>
#include <vector>

using namespace lockstep;

namespace {
constexpr int kRanks = 2, kBatch = 64 /* per rank */, kSteps = 30;

struct Net : Module {
  Generator rng{1};  // the same seed on every rank: all start from the same parameters
  Linear a{{.in_features = 256, .out_features = 1024}, rng};
  Linear b{{.in_features = 1024, .out_features = 1024}, rng};
  Linear c{{.in_features = 1024, .out_features = 10}, rng};
  Net() { register_module("a", a), register_module("b", b), register_module("c", c); }
  Variable forward(const Variable& x) { return c(relu(b(relu(a(x))))); }
};

/// The mean over the ranks, in place. Scaled first, then summed; the result can be used after
/// wait().
WorkPtr average(ProcessGroup& group, Tensor gradient) {
  ops::scale(gradient, 1.0 / group.size());
  return group.all_reduce(gradient, ReduceOp::kSum);
}

/// 1. Naive: correct, and slow where a message has a cost of its own.
struct Naive {
  Naive(Net& net, ProcessGroup& group) : parameters(net.parameters()), group(group) {}
  void backward(const Variable& loss) {
    loss.backward();
    for (const Variable& parameter : parameters) average(group, *parameter.grad())->wait();
  }
  std::vector<Variable> parameters;
  ProcessGroup& group;
};

/// 2. Bucketed: neighbouring gradients share one block of memory, so that one message carries them.
/// bind_grad makes backward write into the block; nothing is copied together. Backward starts at
/// the loss, so the last layer comes first.
struct Bucketed {
  static constexpr int64_t kBucketElements = 1 << 18;  // 1 MiB of f32

  Bucketed(Net& net, ProcessGroup& group) : parameters(net.parameters()), group(group) {
    for (size_t i = parameters.size(); i > 0;) {
      std::vector<size_t> members;
      int64_t elements = 0;
      while (i > 0 && elements < kBucketElements) {
        members.push_back(--i);
        elements += parameters[i].data().numel();
      }
      buckets.push_back({Tensor::zeros({elements}, DType::kF32), members});
      int64_t at = 0;
      for (size_t m : members) {
        const int64_t n = parameters[m].data().numel();
        parameters[m].bind_grad(
            buckets.back().memory.slice(at, at + n).reshape(parameters[m].shape()));
        at += n;
      }
    }
  }
  void backward(const Variable& loss) {
    loss.backward();
    for (auto& bucket : buckets) average(group, bucket.memory)->wait();
  }
  struct Bucket {
    Tensor memory;
    std::vector<size_t> members;
    size_t missing = 0;  // gradients still to come in this backward
  };
  std::vector<Variable> parameters;
  std::vector<Bucket> buckets;
  ProcessGroup& group;
};

/// 3. Overlapped: each parameter's hook counts its bucket down. Buckets are sent strictly in order,
/// for collectives are matched by order and another rank may complete them in another one.
struct Overlapped : Bucketed {
  Overlapped(Net& net, ProcessGroup& group) : Bucketed(net, group) {
    for (auto& bucket : buckets) {
      for (size_t m : bucket.members) {
        hooks.push_back(parameters[m].on_grad_ready([this, &bucket](const Variable&) {
          --bucket.missing;
          while (in_flight.size() < buckets.size() && buckets[in_flight.size()].missing == 0) {
            in_flight.push_back(average(this->group, buckets[in_flight.size()].memory));
          }
        }));
      }
    }
  }
  void backward(const Variable& loss) {
    for (auto& bucket : buckets) bucket.missing = bucket.members.size();
    loss.backward();  // the hooks send the buckets
    for (const WorkPtr& work : in_flight) work->wait();
    in_flight.clear();
  }
  std::vector<HookHandle> hooks;
  std::vector<WorkPtr> in_flight;
};

template <class Method>
void train(const char* name) {
  spawn(kRanks, [&](ProcessGroup& group) {
    Net net;
    Method method(net, group);
    Sgd optimizer(net.named_parameters(), {.lr = 0.05, .momentum = 0.9});
    Generator data(static_cast<uint64_t>(100 + group.rank()));  // other data on every rank
    Tensor images = Tensor::empty({kBatch, 256}, DType::kF32);
    Tensor labels = Tensor::empty({kBatch}, DType::kI64);
    for (int i = 0; i < kBatch; ++i) labels.mutable_data<int64_t>()[i] = (i + group.rank()) % 10;
    double last = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int step = 0; step < kSteps; ++step) {
      ops::normal(images, 0, 1, data);
      const Variable loss = cross_entropy(net.forward(Variable(images)), labels);
      optimizer.zero_grad();
      method.backward(loss);
      optimizer.step();
      last = loss.data().item();
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (group.rank() != 0) return;
    std::printf("%-10s  %6.2f ms/step  last loss %.9f\n", name, took.count() / kSteps, last);
  });
}

}  // namespace

int main() {
  train<Naive>("naive");
  train<Bucketed>("bucketed");
  train<Overlapped>("overlapped");
}

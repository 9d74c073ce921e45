// Activation checkpointing under DataParallel: the reducer sees what it sees without.
#include "lockstep/autograd/checkpoint.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/reduce/toy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::kAveraging;
using testing::on_ranks;
using testing::random_tensor;

constexpr int kRanks = 3;
constexpr int64_t kRows = 256;
constexpr int64_t kWidth = 48;

/// fc2(gelu(bn(fc1(x)))) with dropout, added to x.
struct Block : Module {
  Linear fc1, fc2;
  BatchNorm2d bn{{.channels = kWidth}};
  Dropout drop;
  explicit Block(Generator& rng)
      : fc1({.in_features = kWidth, .out_features = kWidth}, rng),
        fc2({.in_features = kWidth, .out_features = kWidth}, rng),
        drop(0.2, rng) {
    register_module("fc1", fc1), register_module("bn", bn), register_module("fc2", fc2);
  }
  Variable forward(const Variable& x) { return x + fc2(drop(gelu(bn(fc1(x))))); }
};

struct Net : Module {
  Generator rng;
  bool checkpointed;
  std::vector<std::unique_ptr<Block>> blocks;
  Linear head;
  Net(uint64_t seed, bool checkpointed_)
      : rng(seed),
        checkpointed(checkpointed_),
        head({.in_features = kWidth, .out_features = 5}, rng) {
    for (int i = 0; i < 4; ++i) {
      blocks.push_back(std::make_unique<Block>(rng));
      register_module("block" + std::to_string(i), *blocks.back());
    }
    register_module("head", head);
  }
  Variable forward(Variable x) {
    for (const auto& block : blocks) {
      const auto fn = [b = block.get()](const std::vector<Variable>& v) {
        return b->forward(v[0]);
      };
      x = checkpointed ? checkpoint(fn, {x}) : fn({x});
    }
    return head(x);
  }
};

/// Four steps, the second of two micro-batches; the result is rank 0's parameters and buffers.
std::vector<Tensor> train(DdpMode mode, bool checkpointed) {
  std::vector<Tensor> result;
  on_ranks(kRanks, [&](ProcessGroup& group) {
    Net net(static_cast<uint64_t>(1 + group.rank()), checkpointed);
    DataParallel ddp(net, group, {.mode = mode, .bucket_cap_mb = 0.01, .first_bucket_cap_mb = 0});
    Sgd optimizer(net.named_parameters(), {.lr = 0.1, .momentum = 0.9});
    int fired = 0;
    std::vector<HookHandle> hooks;
    for (auto& [name, parameter] : net.named_parameters())
      hooks.push_back(parameter.on_grad_ready([&](const Variable&) { ++fired; }));
    const auto backward = [&](int step) {
      const auto seed = static_cast<uint64_t>(100 * step + group.rank());
      const Tensor x = random_tensor({kRows, kWidth}, seed, -1, 1, DType::kF32);
      const Tensor classes = ops::cast(random_tensor({kRows}, seed + 50, 0, 5), DType::kI64);
      cross_entropy(net.forward(Variable(x)), classes).backward();
    };
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      fired = 0;
      if (step == 1) {
        const NoSync no_sync = ddp.no_sync();
        backward(10);
      }
      backward(step);
      const int passes = step == 1 ? 2 : 1;
      check(fired == passes * static_cast<int>(hooks.size()), "hooks fired ", fired, " times for ",
            hooks.size(), " parameters in ", passes, " backwards");
      optimizer.step();
    }
    if (group.rank() != 0) return;
    for (const NamedTensor& entry : net.state_dict()) result.push_back(ops::clone(entry.tensor));
  });
  return result;
}

TEST_CASE("checkpoint: training on 3 ranks is the same bit for bit, with less memory") {
  for (const DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    const size_t before = cpu_allocator().stats().peak_bytes_in_use;
    const auto with = train(mode, true);
    const size_t peak_with = cpu_allocator().stats().peak_bytes_in_use;
    const auto without = train(mode, false);
    const size_t peak_without = cpu_allocator().stats().peak_bytes_in_use;
    if (mode == kAveraging[0]) {
      CHECK(peak_with > before);
      MESSAGE("peak with ", peak_with >> 10, " KiB, without ", peak_without >> 10, " KiB");
      CHECK(peak_with < peak_without);
    }
    REQUIRE(with.size() == without.size());
    for (size_t i = 0; i < with.size(); ++i) {
      CAPTURE(i);
      CHECK(std::memcmp(with[i].raw(), without[i].raw(), with[i].nbytes()) == 0);
    }
  }
}

TEST_CASE("checkpoint: a parameter that a branch leaves out is found unused from the start") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Net net(7, true);
    DataParallel ddp(net, group, {.bucket_cap_mb = 0.01, .find_unused_parameters = true});
    // Rank 1 leaves out one block.
    Variable x(random_tensor({8, kWidth}, 1, -1, 1, DType::kF32));
    for (size_t i = 0; i < net.blocks.size(); ++i) {
      const auto fn = [&, i](const std::vector<Variable>& v) {
        return group.rank() == 1 && i == 2 ? gelu(v[0]) : net.blocks[i]->forward(v[0]);
      };
      x = checkpoint(fn, {x});
    }
    cross_entropy(net.head(x), Tensor::zeros({8}, DType::kI64)).backward();
    for (const auto& [name, parameter] : net.named_parameters())
      check(parameter.grad().has_value(), name, " has no gradient");
  });
}

}  // namespace
}  // namespace lockstep

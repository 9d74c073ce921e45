// Buffers: rank 0's reach all ranks with each synchronised backward, and nothing else talks.
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/linear.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/reduce/counting_group.h"
#include "lockstep/tests/distributed/reduce/toy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

using testing::CountingGroup;
using testing::kAveraging;
using testing::on_ranks;
using testing::thrown_by;

constexpr int kRanks = 3;

/// The product of a weight, the input and a buffer; each forward changes the other buffers.
struct Counting : Module {
  Variable weight{Tensor::from<double>({1, 2}, {2}), true};
  Variable other{Tensor::from<double>({1, 2}, {2}), true};
  Tensor forwards = Tensor::zeros({1}, DType::kI64);
  Tensor mean = Tensor::zeros({2}, DType::kF32);
  Tensor mask = Tensor::from<double>({1, 0.5}, {2});

  Counting() {
    register_parameter("weight", weight);
    register_parameter("other", other);
    register_buffer("forwards", forwards);
    register_buffer("mean", mean);
    register_buffer("mask", mask);
  }
  Variable forward(double x, bool with_other = true) {
    ++forwards.mutable_data<int64_t>()[0];
    mean.mutable_data<float>()[1] += static_cast<float>(x);
    const Variable scaled = scale(mul(weight, Variable(mask)), x);
    return sum(with_other ? add(scaled, other) : scaled);
  }
  void expect(int64_t count, float total) const {
    check(forwards.item() == static_cast<double>(count), "forwards: got ", forwards.item(),
          ", wanted ", count);
    check(mean.data<float>()[1] == total, "mean: got ", mean.data<float>()[1], ", wanted ", total);
  }
  void expect_gradient(double x) const {
    const auto got = weight.grad()->to_vector<double>();
    check(std::abs(got[0] - x) < 1e-12 && std::abs(got[1] - x / 2) < 1e-12, "got ", got[0], ", ",
          got[1], " for ", x);
  }
};

/// x on rank r; the mean over three ranks is 2.
double input(int rank) { return rank + 1; }

TEST_CASE("every synchronised backward brings rank 0's buffers, one under no_sync none") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& inner) {
      CountingGroup group(inner);
      Counting net;
      DataParallel ddp(net, group, {.mode = mode, .replan = false});
      const double x = input(group.rank());
      for (int step = 0; step < 3; ++step) {
        net.zero_grad();
        const int64_t before = group.calls, broadcasts = group.broadcasts;
        {
          const NoSync no_sync = ddp.no_sync();
          net.forward(x).backward();
        }
        check(group.calls == before, "it communicated under no_sync");
        const auto base = static_cast<float>(2 * step);
        net.expect(2 * step + 1, base + static_cast<float>(x));
        const Variable loss = net.forward(x);
        check(group.calls == before, "a forward communicated");
        loss.backward();
        net.expect(2 * step + 2, base + 2);  // what rank 0 has: twice its x, which is 1
        net.expect_gradient(4);
        check(group.broadcasts == broadcasts + 1, "the host's buffers are one message");
      }
    });
  }
}

TEST_CASE("switched off, ignored, and by hand") {
  on_ranks(kRanks, [](ProcessGroup& inner) {
    CountingGroup group(inner);
    const double x = input(group.rank());
    Counting off;
    DataParallel ddp(off, group, {.replan = false, .broadcast_buffers = false});
    const int64_t broadcasts = group.broadcasts;
    off.forward(x).backward();
    off.expect(1, static_cast<float>(x));
    check(group.broadcasts == broadcasts, "it was broadcast");
    ddp.broadcast_buffers();
    off.expect(1, 1);

    Counting partly;
    partly.mean.mutable_data<float>()[1] = static_cast<float>(group.rank());
    DataParallel other(partly, group, {.ignore = {"mean"}});
    partly.expect(0, static_cast<float>(group.rank()));
    if (group.rank() == 1) partly.forward(0);  // its count goes
    partly.forward(x).backward();
    partly.expect(1, static_cast<float>(group.rank() + x));
  });
}

TEST_CASE("a graph that saved a buffer runs backward after another one's broadcast") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Counting net;
      DataParallel ddp(net, group, {.mode = mode});
      const Variable first = net.forward(input(group.rank()));
      const Variable second = net.forward(input(group.rank()));
      first.backward();
      second.backward();
      net.expect_gradient(4);
    });
  }
}

TEST_CASE("a backward that fails does not bring old buffers back") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Counting net;
      DataParallel ddp(net, group, {.mode = mode});
      const double x = input(group.rank());
      for (int step = 0; step < 3; ++step) {
        net.zero_grad();
        const auto lacking = [&] { net.forward(x, /*with_other=*/false).backward(); };
        check(thrown_by(lacking).find("other") != std::string::npos, "no error");
        net.zero_grad();
        net.forward(x).backward();
        net.expect(2 * step + 2, static_cast<float>(2 * step + 2));
      }
    });
  }
}

TEST_CASE("rank 0 evaluates alone: there is no collective in a forward") {
  on_ranks(kRanks, [](ProcessGroup& inner) {
    CountingGroup group(inner);
    Counting net;
    DataParallel ddp(net, group);
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      net.forward(input(group.rank())).backward();
      const int64_t before = group.calls;
      if (group.rank() == 0) {
        net.eval();
        const NoGrad no_grad;
        for (int i = 0; i < 5; ++i) net.forward(1);
        net.train();
      }
      check(group.calls == before, "an evaluation communicated");
      group.barrier()->wait();
    }
    net.zero_grad();
    net.forward(input(group.rank())).backward();
    net.expect(4 + 3 * 5, 4 + 3 * 5);  // rank 0's, evaluations included
    net.expect_gradient(2);
  });
}

struct NormNet : Module {
  Generator rng{1};
  Linear first{{.in_features = 4, .out_features = 6}, rng};
  BatchNorm2d norm{{.channels = 6}};
  Linear second{{.in_features = 6, .out_features = 3}, rng};
  NormNet() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("second", second);
    to(DType::kF64);
  }
  Variable forward(const Variable& x) { return second(norm.forward_relu(first(x))); }
};

/// Rows of a global batch of 12 for each step, and a loss on them.
Variable norm_loss(NormNet& net, int step, int64_t begin, int64_t end) {
  const auto seed = static_cast<uint64_t>(step);
  const Tensor inputs = testing::random_tensor({12, 4}, seed).slice(begin, end);
  const Tensor targets =
      ops::cast(testing::random_tensor({12}, seed + 99, 0, 3), DType::kI64).slice(begin, end);
  return cross_entropy(net.forward(Variable(inputs)), targets);
}

std::vector<Tensor> state_of(const Module& net) {
  std::vector<Tensor> state;
  for (const NamedTensor& entry : net.state_dict()) state.push_back(ops::clone(entry.tensor));
  return state;
}

/// Trains with the statistics of a first training batch, frozen.
std::vector<Tensor> train_frozen(ProcessGroup& group, DdpMode mode) {
  NormNet net;
  {
    const NoGrad no_grad;
    norm_loss(net, 100 + group.rank(), 0, 12);  // rank 0's count
  }
  net.norm.eval();
  DataParallel ddp(net, group, {.mode = mode});
  Sgd optimizer(net.named_parameters(), {.lr = 0.1, .momentum = 0.9});
  const int64_t part = 12 / group.size(), begin = group.rank() * part;
  for (int step = 0; step < 6; step += 2) {
    optimizer.zero_grad();
    const Variable a = norm_loss(net, step, begin, begin + part);
    const Variable b = norm_loss(net, step + 1, begin, begin + part);
    a.backward();
    b.backward();
    optimizer.step();
  }
  return state_of(net);
}

TEST_CASE("batch normalisation with frozen statistics trains as one process") {
  const auto single = make_single_group();
  const auto one = train_frozen(*single, DdpMode::kOverlapped);
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& group) {
      const auto several = train_frozen(group, mode);
      for (size_t i = 0; i < one.size(); ++i) {
        check(testing::relative_difference(several[i], one[i]) < 1e-12, "entry ", i, " differs");
      }
    });
  }
}

TEST_CASE("batch normalisation in training: every rank has the statistics of rank 0's batches") {
  NormNet alone;  // sees rank 0's part; no optimizer, so the statistics are the data's alone
  std::vector<std::vector<Tensor>> wanted;
  for (int step = 0; step < 3; ++step) {
    norm_loss(alone, step, 0, 4);
    wanted.push_back(state_of(alone));
  }
  on_ranks(kRanks, [&](ProcessGroup& group) {
    NormNet net;
    DataParallel ddp(net, group);
    for (int step = 0; step < 3; ++step) {
      norm_loss(net, step, 4 * group.rank(), 4 * group.rank() + 4).backward();
      const auto state = state_of(net);
      for (size_t i = 0; i < state.size(); ++i) {
        check(ops::cast(state[i], DType::kF64).to_vector<double>() ==
                  ops::cast(wanted[static_cast<size_t>(step)][i], DType::kF64).to_vector<double>(),
              "step ", step, ": entry ", i);
      }
    }
  });
}

}  // namespace
}  // namespace lockstep

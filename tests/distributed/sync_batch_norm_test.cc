#include "lockstep/distributed/sync_batch_norm.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

namespace lockstep {
namespace {

using testing::random_tensor;
using testing::relative_difference;

constexpr int64_t kSamples = 8;

/// Plain and fused normalisation, with and without a residual, and one of [N, C] at the end.
struct Net : Module {
  Generator rng{7};
  Conv2d conv1{{.in_channels = 2, .out_channels = 6, .kernel = 3, .padding = 1}, rng};
  BatchNorm2d bn1{{.channels = 6}};
  Conv2d conv2{{.in_channels = 6, .out_channels = 6, .kernel = 3, .padding = 1}, rng};
  BatchNorm2d bn2{{.channels = 6, .momentum = 0.3}};
  Linear fc{{.in_features = 6, .out_features = 4}, rng};
  BatchNorm2d bn3{{.channels = 4}};
  Net() {
    register_module("conv1", conv1);
    register_module("bn1", bn1);
    register_module("conv2", conv2);
    register_module("bn2", bn2);
    register_module("fc", fc);
    register_module("bn3", bn3);
    to(DType::kF64);
  }
  Variable forward(const Variable& x) {
    const Variable y = bn1.forward_relu(conv1(x));
    return bn3(fc(global_avg_pool2d(bn2.forward_relu(conv2(y), y))));
  }
};

Tensor inputs(int step = 0) {
  return random_tensor({kSamples, 5, 4, 2}, 11 + static_cast<uint64_t>(step));
}
Tensor output_grads() { return random_tensor({kSamples, 4}, 12); }

struct Result {
  Tensor output, grad_x;
  std::vector<Tensor> grads, buffers;
};

Result run(Net& net, int64_t begin, int64_t end) {
  const Variable x(ops::clone(inputs().slice(begin, end)), true);
  const Variable y = net.forward(x);
  y.backward(output_grads().slice(begin, end));
  Result result{y.data(), *x.grad(), {}, {}};
  for (const Variable& p : net.parameters()) result.grads.push_back(ops::clone(*p.grad()));
  for (const auto& [name, buffer] : net.named_buffers()) result.buffers.push_back(buffer);
  return result;
}

/// The first row of rank `rank` when the ranks hold `counts` rows.
int64_t first_of(const std::vector<int64_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
}

ThreadGroupOptions delayed(int ranks) {
  return {.delay = [=](int rank, int64_t sequence) {
    const uint32_t dice = philox4x32(static_cast<uint64_t>(rank * ranks),  // unlike on each rank
                                     static_cast<uint64_t>(sequence))[0];
    std::this_thread::sleep_for(std::chrono::microseconds(dice % 1500));
  }};
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.nbytes() == b.nbytes() && std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0;
}

TEST_CASE("ranks with unequal batches compute what one process does with all samples") {
  Net pooled;
  const Result expected = run(pooled, 0, kSamples);
  for (const std::vector<int64_t>& counts :
       {std::vector<int64_t>{3, 5}, {3, 5, 0}, {0, 3, 5}, {1, 0, 7}, {2, 2, 3, 1}}) {
    const auto ranks = static_cast<int>(counts.size());
    std::vector<Result> results(counts.size());
    spawn(
        ranks,
        [&](ProcessGroup& group) {
          omp_set_num_threads(1);
          Net net;
          REQUIRE(use_sync_batch_norm(net, group) == 3);
          const int64_t begin = first_of(counts, group.rank());
          Result r = run(net, begin, begin + counts[static_cast<size_t>(group.rank())]);
          for (const Tensor& grad : r.grads) group.all_reduce(grad)->wait();
          results[static_cast<size_t>(group.rank())] = r;
        },
        delayed(ranks));
    // f64: the same sums in another order, through three normalisations.
    constexpr double kTolerance = 1e-12;
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(ranks);
      CAPTURE(rank);
      const Result& got = results[static_cast<size_t>(rank)];
      const int64_t begin = first_of(counts, rank);
      const int64_t end = begin + counts[static_cast<size_t>(rank)];
      if (begin < end) {
        CHECK(relative_difference(got.output, expected.output.slice(begin, end)) <= kTolerance);
        CHECK(relative_difference(got.grad_x, expected.grad_x.slice(begin, end)) <= kTolerance);
      }
      // The biases before a normalisation have a gradient of zero but for rounding.
      const auto names = pooled.named_parameters();
      for (size_t i = 0; i < names.size(); ++i) {
        CAPTURE(names[i].name);
        const bool zero = names[i].name.ends_with(".bias") && !names[i].name.starts_with("bn");
        if (zero) {
          for (const double g : got.grads[i].to_vector<double>()) CHECK(std::abs(g) <= 1e-12);
        } else {
          CHECK(relative_difference(got.grads[i], expected.grads[i]) <= kTolerance);
        }
      }
      for (size_t i = 0; i < expected.buffers.size(); ++i) {
        CHECK(relative_difference(got.buffers[i], expected.buffers[i]) <= kTolerance);
        CHECK(same_bits(got.buffers[i], results[0].buffers[i]));
      }
    }
  }
}

TEST_CASE("without it, three ranks do not compute that") {
  Net pooled, alone;
  const Result expected = run(pooled, 0, kSamples);
  CHECK(relative_difference(run(alone, 0, 3).output, expected.output.slice(0, 3)) > 1e-3);
}

/// Trains three steps on the loss sum((y - 1)^2) / kSamples with unequal batches; the parameters
/// and buffers at the end.
std::vector<Tensor> train(ProcessGroup& group, const std::vector<int64_t>& counts) {
  Net net;
  use_sync_batch_norm(net, group);
  const DataParallel ddp(net, group, {.bucket_cap_mb = 0, .first_bucket_cap_mb = 0});
  Sgd sgd(net.named_parameters(), {.lr = 0.1, .momentum = 0.9});
  const int64_t begin = first_of(counts, group.rank());
  for (int step = 0; step < 3; ++step) {
    sgd.zero_grad();
    const Tensor mine =
        inputs(step).slice(begin, begin + counts[static_cast<size_t>(group.rank())]);
    const Variable d = add_scalar(net.forward(Variable(mine)), -1);
    scale(sum(d * d), static_cast<double>(group.size()) / kSamples).backward();
    sgd.step();
  }
  std::vector<Tensor> state;
  for (const auto& [name, tensor] : net.state_dict()) state.push_back(ops::clone(tensor));
  return state;
}

TEST_CASE("training beside gradient buckets in flight: replicas are equal, and equal one process") {
  const auto single = make_single_group();
  const auto expected = train(*single, {kSamples});
  std::vector<std::vector<Tensor>> states(3);
  spawn(
      3,
      [&](ProcessGroup& group) {
        omp_set_num_threads(1);
        states[static_cast<size_t>(group.rank())] = train(group, {3, 5, 0});
      },
      delayed(3));
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_difference(states[0][i], expected[i]) <= 1e-10);
    CHECK(same_bits(states[1][i], states[0][i]));
    CHECK(same_bits(states[2][i], states[0][i]));
  }
}

TEST_CASE("f32: running statistics have the same bits on every rank") {
  std::vector<std::vector<Tensor>> buffers(3);
  spawn(3, [&](ProcessGroup& group) {
    omp_set_num_threads(1);
    BatchNorm2d bn({.channels = 37});
    use_sync_batch_norm(bn, group);
    for (uint64_t step = 0; step < 20; ++step) {
      bn(Variable(random_tensor({3 * group.rank(), 2, 2, 37}, 100 * step + group.rank(), -1, 9,
                                DType::kF32)));
    }
    for (const auto& [name, buffer] : bn.named_buffers())
      buffers[static_cast<size_t>(group.rank())].push_back(buffer);
  });
  for (size_t i = 0; i < 3; ++i) {
    CHECK(same_bits(buffers[1][i], buffers[0][i]));
    CHECK(same_bits(buffers[2][i], buffers[0][i]));
  }
}

TEST_CASE("one rank may evaluate alone") {
  spawn(3, [](ProcessGroup& group) {
    Net net;
    use_sync_batch_norm(net, group);
    net.eval();
    if (group.rank() == 0) {
      const Variable x(inputs(), true);
      sum(net.forward(x)).backward();
    }
    group.barrier()->wait();
  });
}

TEST_CASE("the layers' group outlives the one that it was split from") {
  spawn(3, [](ProcessGroup& group) {
    omp_set_num_threads(1);
    Variable y;
    {
      Net net;
      {
        const auto passing = group.split(0, group.rank());
        use_sync_batch_norm(net, *passing);
      }
      y = net.forward(Variable(inputs()));
    }
    y.backward(output_grads());
    group.barrier()->wait();
  });
}

TEST_CASE("fewer than two values on all ranks together: every rank says so") {
  std::vector<std::string> errors(3);
  spawn(3, [&](ProcessGroup& group) {
    BatchNorm2d bn({.channels = 4});
    use_sync_batch_norm(bn, group);
    try {
      bn(Variable(random_tensor({group.rank() == 1 ? 1 : 0, 4}, 1, -1, 1, DType::kF32)));
    } catch (const ArgumentError& e) {
      errors[static_cast<size_t>(group.rank())] = e.what();
    }
    // Three ranks with one value each have a variance.
    bn(Variable(random_tensor({1, 4}, 1, -1, 1, DType::kF32)));
  });
  for (const std::string& error : errors) {
    CHECK(error.find("more than one value a channel") != std::string::npos);
    CHECK(error.find("1 on all ranks together") != std::string::npos);
  }
}

TEST_CASE("one rank, or no such layer: nothing changes") {
  const auto single = make_single_group();
  Net net;
  CHECK(use_sync_batch_norm(net, *single) == 0);
  Net plain;
  CHECK(same_bits(run(net, 0, kSamples).output, run(plain, 0, kSamples).output));
  spawn(2, [](ProcessGroup& group) {
    Generator rng(1);
    Linear linear({.in_features = 2, .out_features = 2}, rng);
    CHECK(use_sync_batch_norm(linear, group) == 0);
  });
}

}  // namespace
}  // namespace lockstep

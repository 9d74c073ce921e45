// Stream order, before there is a GPU: collectives and the reducer on simulated streams that run
// late.
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/optimizer.h"
#include "lockstep/tests/support/gradcheck.h"
#include "lockstep/tests/support/sim_stream_group.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kRanks = 3;
constexpr Delay kNone{};
constexpr Delay kRandom{microseconds(0), microseconds(300)};
constexpr Delay kSlow{microseconds(5000), microseconds(5000)};
constexpr Delay kSlowKernels{microseconds(250), microseconds(250)};  // there are many more of them

Tensor on_host(const Tensor& x) { return ops::to_device(x, Device::cpu()); }

/// Whether every rank reads the right sum after fill, all_reduce, wait and a copy, all on streams.
bool sums_are_right(const SimDeviceOptions& options, SimWaits waits) {
  const SimDevice device(options);
  std::atomic<bool> right{true};
  spawn(kRanks, [&](ProcessGroup& host) {
    SimStreamGroup group(host, waits);
    for (int step = 0; step < 3; ++step) {
      Tensor x = ops::full({100}, host.rank() + 1, DType::kF32, Device::cuda());
      const WorkPtr work = group.all_reduce(x, ReduceOp::kSum);
      work->wait();
      ops::scale(x, 2);
      for (const float value : on_host(x).to_vector<float>()) {
        if (value != 12) right = false;
      }
    }
    group.barrier()->wait();
  });
  return right;
}

TEST_CASE("a collective waits for the kernels before it, and the kernels after it wait for it") {
  CHECK(sums_are_right({.compute = kRandom, .side = kRandom}, {}));
  CHECK(sums_are_right({.compute = kSlow, .side = kNone}, {}));
  CHECK(sums_are_right({.compute = kNone, .side = kSlow}, {}));
}

/// Leaving out a wait is a data race, made on purpose, which ThreadSanitizer rightly reports.
bool races_are_reported() {
#ifdef __SANITIZE_THREAD__
  std::puts("SKIPPED: ThreadSanitizer would report the races that this test makes on purpose");
  return true;
#else
  return false;
#endif
}

TEST_CASE("each of the waits is needed: without it the same program computes something else") {
  if (races_are_reported()) return;
  CHECK_FALSE(sums_are_right({.compute = kSlow, .side = kNone}, {.collective_for_compute = false}));
  CHECK_FALSE(sums_are_right({.compute = kNone, .side = kSlow}, {.compute_for_collective = false}));
}

TEST_CASE(
    "wait returns at once, wait_host when the operation is complete or the deadline has passed") {
  for (const bool waits : {true, false}) {
    const SimDevice device({.compute = kNone, .side = {milliseconds(50), milliseconds(50)}});
    std::atomic<int> complete{0}, too_late{0}, pending{0};
    spawn(kRanks, [&](ProcessGroup& host) {
      SimStreamGroup group(host, {.host_for_collective = waits});
      Tensor x = ops::full({4}, 1, DType::kF32, Device::cuda());
      const WorkPtr work = group.all_reduce(x, ReduceOp::kSum);
      work->wait();
      if (!work->done()) ++pending;
      try {
        work->wait_host(milliseconds(1));
      } catch (const CommError&) {
        ++too_late;
      }
      work->wait_host(milliseconds(10'000));
      if (work->done() && work->times().finish_ns >= work->times().start_ns) ++complete;
      group.barrier()->wait();
    });
    CHECK(pending == kRanks);
    CHECK((complete == kRanks) == waits);  // without the wait the host is too early
    CHECK((too_late == kRanks) == waits);
  }
}

TEST_CASE("memory freed on the host may still be used by the collective that holds it") {
  const SimDevice device({.compute = kNone, .side = kSlow});
  spawn(kRanks, [](ProcessGroup& host) {
    SimStreamGroup group(host);
    Tensor sum = Tensor::empty({3 * 64}, DType::kF32, Device::cuda());
    const WorkPtr work =
        group.all_gather(sum, ops::full({64}, host.rank(), DType::kF32, Device::cuda()));
    ops::full({64}, 77, DType::kF32, Device::cuda());  // must not be given the same memory
    work->wait();
    const auto values = on_host(sum).to_vector<float>();
    check(values[0] == 0 && values[64] == 1 && values[191] == 2, "wrong values");
  });
}

struct Net : Module {
  Variable w1, b1, w2;
  Net(uint64_t seed, Device device)
      : w1(on(device, {16, 8}, seed), true),
        b1(on(device, {16}, seed + 1), true),
        w2(on(device, {4, 16}, seed + 2), true) {
    register_parameter("w1", w1);
    register_parameter("b1", b1);
    register_parameter("w2", w2);
  }
  static Tensor on(Device device, const Shape& shape, uint64_t seed) {
    return ops::to_device(random_tensor(shape, seed), device);
  }
  Variable loss(const Variable& x) { return mean(linear(relu(linear(x, w1, b1)), w2, Variable())); }
};

/// The parameters after a few steps on rank 0; every rank trains on its own batch, all under
/// `group_of`'s group.
template <class MakeGroup>
std::vector<Tensor> train(Device device, DdpMode mode, MakeGroup make_group) {
  std::vector<Tensor> result;
  std::mutex mutex;
  spawn(kRanks, [&](ProcessGroup& host) {
    auto group = make_group(host);
    ProcessGroup& used = *group;
    Net net(static_cast<uint64_t>(10 + host.rank()), device);
    DataParallel ddp(net, used, {.mode = mode, .bucket_cap_mb = 0, .first_bucket_cap_mb = 0});
    for (int step = 0; step < 4; ++step) {
      net.zero_grad();
      const auto seed = static_cast<uint64_t>(100 + step * kRanks + host.rank());
      {
        const NoSync no_sync = ddp.no_sync();
        net.loss(Variable(Net::on(device, {5, 8}, seed))).backward();
      }
      net.loss(Variable(Net::on(device, {5, 8}, seed + 1000))).backward();
      for (Variable& parameter : net.parameters()) {
        Tensor no_velocity;
        ops::sgd_step(parameter.mutable_data(), *parameter.grad(), no_velocity, {.lr = 0.5});
      }
    }
    for (const Variable& parameter : net.parameters()) {
      const Tensor value = ops::clone(on_host(parameter.data()));
      const std::lock_guard lock(mutex);
      if (host.rank() == 0) result.push_back(value);
    }
    used.barrier()->wait();
  });
  return result;
}

struct Borrowed {
  ProcessGroup& group;
  ProcessGroup& operator*() const { return group; }
};

bool same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    // Another order of adding three gradients; f64.
    if (!(relative_difference(a[i], b[i]) <= 1e-12)) return false;
  }
  return true;
}

TEST_CASE("the reducer on streams with random delays trains as on the CPU, in every mode") {
  const auto wanted =
      train(Device::cpu(), DdpMode::kNaive, [](ProcessGroup& host) { return Borrowed{host}; });
  CHECK(wanted.size() == 3);
  for (const DdpMode mode : {DdpMode::kNaive, DdpMode::kBucketed, DdpMode::kOverlapped}) {
    for (const auto& [compute, side] :
         {std::pair{kRandom, kRandom}, {kSlowKernels, kNone}, {kNone, kSlow}}) {
      const SimDevice device({.compute = compute, .side = side});
      const auto got = train(Device::cuda(), mode, [](ProcessGroup& host) {
        return std::make_unique<SimStreamGroup>(host);
      });
      CHECK(same(got, wanted));
    }
  }
}

TEST_CASE("the reducer needs both of its waits") {
  if (races_are_reported()) return;
  const auto wanted =
      train(Device::cpu(), DdpMode::kNaive, [](ProcessGroup& host) { return Borrowed{host}; });
  const auto run = [](Delay compute, Delay side, SimWaits waits) {
    const SimDevice device({.compute = compute, .side = side});
    return train(Device::cuda(), DdpMode::kOverlapped,
                 [&](ProcessGroup& host) { return std::make_unique<SimStreamGroup>(host, waits); });
  };
  CHECK_FALSE(same(run(kSlowKernels, kNone, {.collective_for_compute = false}), wanted));
  CHECK_FALSE(same(run(kNone, kSlow, {.compute_for_collective = false}), wanted));
}

}  // namespace
}  // namespace lockstep

// A small convolutional network without batch statistics, and its training on any number of ranks:
// what data-parallel tests compare with one process.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/nn/module.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep::testing {

struct SmallNet : Module {
  explicit SmallNet(DType dtype, uint64_t seed = 1, Device device = Device::cpu());
  /// x [n, 8, 8, 2] -> logits [n, 5].
  Variable forward(const Variable& x) const;

  Variable conv1, bias1, conv2, bias2, fc, fc_bias;
};

struct TrainOptions {
  int ranks = 1;
  int global_batch = 96;
  int steps = 20;
  int micro_batches = 1;  // accumulated on each rank
  DType dtype = DType::kF32;
  DdpOptions ddp = {};
  std::function<void(int rank, int64_t sequence)> delay = {};  // in collectives
  std::function<void(int rank)> hook_delay = {};               // in backward, at each gradient
  Device device = Device::cpu();
};

/// Trains with momentum SGD on data that depends on the step alone; rank r takes part r of each
/// global batch. The result: for each rank, the parameters at the end, on the host.
std::vector<std::vector<Tensor>> train_small_net(const TrainOptions& options);
/// One rank's part in it, over a group of the caller's own; `ranks` and `delay` do not count.
std::vector<Tensor> train_small_net_on(ProcessGroup& group, const TrainOptions& options);

/// The batch of `step`: inputs and targets, rows [begin, end) of `global_batch`.
struct SmallBatch {
  Tensor inputs;
  Tensor targets;
};
SmallBatch small_batch(int step, int global_batch, int begin, int end, DType dtype);

/// The largest relative difference of a tensor of `a` from the same of `b`.
double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b);

}  // namespace lockstep::testing

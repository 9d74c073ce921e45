// A process group of the simulated device: what a group over NCCL does, with streams that are
// threads. A collective is enqueued on the group's own stream, behind an event of the caller's
// current stream; Work::wait makes the current stream wait for it and returns at once.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/tests/support/sim_device.h"

#include <functional>
#include <memory>
#include <vector>

namespace lockstep::testing {

/// The waits that the group makes; a test drops one to see that it is needed.
struct SimWaits {
  bool collective_for_compute = true;  // for the kernels that produce the data
  bool compute_for_collective = true;  // Work::wait
  bool host_for_collective = true;     // Work::wait_host
};

/// Tensors are on Device::cuda(), or on the host, and then Work::wait blocks. Issue and wait on one
/// thread.
class SimStreamGroup final : public ProcessGroup {
 public:
  /// `host` moves the data; it is used on the group's stream alone.
  explicit SimStreamGroup(ProcessGroup& host, SimWaits waits = {});
  ~SimStreamGroup() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  const char* backend() const override { return "simulated streams"; }

  WorkPtr all_reduce(Tensor tensor, ReduceOp op) override;
  WorkPtr broadcast(Tensor tensor, int root) override;
  WorkPtr all_gather(Tensor out, Tensor in) override;
  WorkPtr reduce_scatter(Tensor out, Tensor in, ReduceOp op) override;
  WorkPtr all_to_all(Tensor out, Tensor in) override;
  WorkPtr send(Tensor tensor, int to) override;
  WorkPtr recv(Tensor tensor, int from) override;
  WorkPtr barrier() override;
  std::unique_ptr<ProcessGroup> split(int color, int key) override;
  void abort(std::string reason) override;

 private:
  /// Enqueues start(), which issues the operation to the host group, and waits for it on the
  /// group's stream.
  WorkPtr enqueue(std::vector<Tensor> tensors, std::function<WorkPtr()> start);

  ProcessGroup& host_;
  SimWaits waits_;
  std::unique_ptr<SimStream> stream_;
};

}  // namespace lockstep::testing

#include "lockstep/tests/support/sim_stream_group.h"

#include "lockstep/base/error.h"

#include <thread>
#include <utility>

namespace lockstep::testing {
namespace {

class SimWork final : public Work {
 public:
  SimWork(EventPtr finished, std::vector<Tensor> tensors, std::shared_ptr<const Times> times,
          SimWaits waits)
      : finished_(std::move(finished)),
        tensors_(std::move(tensors)),
        times_(std::move(times)),
        waits_(waits) {}

  void wait() override {
    if (!tensors_.empty() && tensors_[0].device() == Device::cuda()) {
      if (waits_.compute_for_collective) current_stream(Device::cuda()).wait(finished_);
    } else {
      finished_->wait_host();
    }
  }

  void wait_host(std::chrono::milliseconds deadline) override {
    if (!waits_.host_for_collective) return;
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (!finished_->done()) {
      if (std::chrono::steady_clock::now() >= end)
        throw CommError("wait_host: the deadline has passed");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    finished_->wait_host();
  }

  bool done() const override { return finished_->done(); }
  Times times() const override { return finished_->done() ? *times_ : Times{}; }

 private:
  EventPtr finished_;
  std::vector<Tensor> tensors_;
  std::shared_ptr<const Times> times_;
  SimWaits waits_;
};

}  // namespace

SimStreamGroup::SimStreamGroup(ProcessGroup& host, SimWaits waits)
    : host_(host), waits_(waits), stream_(SimDevice::create_stream()) {}

SimStreamGroup::~SimStreamGroup() = default;

WorkPtr SimStreamGroup::enqueue(std::vector<Tensor> tensors, std::function<WorkPtr()> start) {
  if (waits_.collective_for_compute) stream_->wait(current_stream(Device::cuda()).record());
  auto times = std::make_shared<Work::Times>();
  // The closure holds the tensors: a work that is dropped does not end the operation.
  stream_->enqueue([start = std::move(start), tensors, times] {
    const WorkPtr work = start();
    work->wait();
    *times = work->times();
  });
  return std::make_shared<SimWork>(stream_->record(), std::move(tensors), std::move(times), waits_);
}

WorkPtr SimStreamGroup::all_reduce(Tensor tensor, ReduceOp op) {
  return enqueue({tensor}, [this, op, x = host_view(tensor)] { return host_.all_reduce(x, op); });
}

WorkPtr SimStreamGroup::broadcast(Tensor tensor, int root) {
  return enqueue({tensor},
                 [this, root, x = host_view(tensor)] { return host_.broadcast(x, root); });
}

WorkPtr SimStreamGroup::all_gather(Tensor out, Tensor in) {
  return enqueue({out, in}, [this, to = host_view(out), from = host_view(in)] {
    return host_.all_gather(to, from);
  });
}

WorkPtr SimStreamGroup::reduce_scatter(Tensor out, Tensor in, ReduceOp op) {
  return enqueue({out, in}, [this, op, to = host_view(out), from = host_view(in)] {
    return host_.reduce_scatter(to, from, op);
  });
}

WorkPtr SimStreamGroup::all_to_all(Tensor out, Tensor in) {
  return enqueue({out, in}, [this, to = host_view(out), from = host_view(in)] {
    return host_.all_to_all(to, from);
  });
}

WorkPtr SimStreamGroup::send(Tensor tensor, int to) {
  return enqueue({tensor}, [this, to, x = host_view(tensor)] { return host_.send(x, to); });
}

WorkPtr SimStreamGroup::recv(Tensor tensor, int from) {
  return enqueue({tensor}, [this, from, x = host_view(tensor)] { return host_.recv(x, from); });
}

WorkPtr SimStreamGroup::barrier() {
  return enqueue({}, [this] { return host_.barrier(); });
}

std::unique_ptr<ProcessGroup> SimStreamGroup::split(int, int) {
  throw UnsupportedError("simulated streams: no split");
}

void SimStreamGroup::abort(std::string reason) { host_.abort(std::move(reason)); }

}  // namespace lockstep::testing

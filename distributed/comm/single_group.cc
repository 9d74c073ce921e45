#include "lockstep/distributed/comm/single_group.h"

#include "lockstep/distributed/comm/group_base.h"
#include "lockstep/tensor/memory.h"

#include <mutex>

namespace lockstep {
namespace {

class DoneWork : public Work {
 public:
  explicit DoneWork(Times times) : times_(times) {}
  void wait() override {}
  void wait_host(std::chrono::milliseconds) override {}
  bool done() const override { return true; }
  Times times() const override { return times_; }

 private:
  Times times_;
};

class SingleGroup : public comm::GroupBase {
 public:
  SingleGroup() : GroupBase(0, 1) {}
  const char* backend() const override { return "single"; }

  void abort(std::string reason) override {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failed_ = true;
    reason_ = std::move(reason);
  }

 protected:
  /// Any device's.
  void check_place(const char*, const Tensor&) const override {}

  WorkPtr submit(comm::Op op) override {
    {
      const std::lock_guard lock(mutex_);
      if (failed_) {
        throw CommError(str(describe(op.signature), ": the group has failed already: ", reason_));
      }
    }
    const int64_t start = comm::steady_now_ns();
    // In place there is nothing to do: the one rank's elements are the result.
    if (op.in_data != nullptr && op.out.nbytes() > 0) {
      device_memory(op.out.device()).copy(op.out_data, op.in_data, op.out.nbytes());
    }
    return std::make_shared<DoneWork>(Work::Times{start, comm::steady_now_ns()});
  }

  std::unique_ptr<ProcessGroup> make_subgroup(const Subgroup&) override {
    return make_single_group();
  }

 private:
  std::mutex mutex_;
  bool failed_ = false;
  std::string reason_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_single_group() { return std::make_unique<SingleGroup>(); }

}  // namespace lockstep

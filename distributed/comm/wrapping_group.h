// WrappingGroup: a group whose worker gets its operations done by calls of another group, which it
// owns.
#pragma once

#include "lockstep/distributed/comm/queued_group.h"

namespace lockstep::comm {

class WrappingGroup : public QueuedGroup {
 public:
  /// `how` as in "emulated 1 Gbit/s": backend() is "how over gloo".
  WrappingGroup(std::unique_ptr<ProcessGroup> inner, const std::string& how)
      : QueuedGroup(inner->rank(), inner->size()),
        inner_(std::move(inner)),
        backend_(str(how, " over ", inner_->backend())) {}

  const char* backend() const final { return backend_.c_str(); }
  std::unique_ptr<ProcessGroup> split(int color, int key) final;
  /// The inner group's, where the ranks meet.
  void collect_logs(LogCollection& into) const final;

 protected:
  /// Wraps one part of a split of inner() as this group wraps inner().
  virtual std::unique_ptr<ProcessGroup> wrap(std::unique_ptr<ProcessGroup> part) = 0;
  void interrupt(const std::string& reason) override { inner_->abort(reason); }

  /// The worker's, and split's while the worker rests.
  ProcessGroup& inner() { return *inner_; }
  /// Issues the same call on inner(). `op` outlives the result.
  WorkPtr hand_on(const Op& op);

 private:
  std::unique_ptr<ProcessGroup> make_subgroup(const Subgroup&) final { return nullptr; }

  const std::unique_ptr<ProcessGroup> inner_;
  const std::string backend_;
};

/// `count` elements at `data`, as a tensor that does not own them. What a worker hands on: the
/// caller's thread has marked the caller's tensors as changed already, and a worker must not do so
/// at some moment of its own.
Tensor borrowed(const std::byte* data, int64_t count, DType dtype);

}  // namespace lockstep::comm

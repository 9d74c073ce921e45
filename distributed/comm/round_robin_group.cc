#include "lockstep/distributed/comm/round_robin_group.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_log.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

using Groups = std::vector<std::unique_ptr<ProcessGroup>>;
using std::chrono::milliseconds;

/// The groups and their common end; a Work that is left over must not reach into groups that are
/// gone.
class Members {
 public:
  explicit Members(Groups groups) : groups_(std::move(groups)) {}

  size_t size() const { return groups_.size(); }
  ProcessGroup& operator[](size_t i) const { return *groups_[i]; }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (reason_ || gone_) return;
    reason_ = reason;
    for (const auto& group : groups_) group->abort(reason);
  }

  void check_alive(const char* call) const {
    const std::lock_guard lock(mutex_);
    if (reason_) throw CommError(str(call, ": the group has failed already: ", *reason_));
  }

  void leave() {
    {
      const std::lock_guard lock(mutex_);
      gone_ = true;
    }
    groups_.clear();
  }

 private:
  Groups groups_;
  mutable std::mutex mutex_;
  std::optional<std::string> reason_;
  bool gone_ = false;
};

/// Runs fn; a CommError of one group becomes the error of all.
template <class Fn>
decltype(auto) or_abort(Members& members, Fn&& fn) {
  try {
    return fn();
  } catch (const CommError& e) {
    members.abort(e.what());
    throw;
  }
}

/// The operations of one or, for a barrier, of all groups.
class RoundRobinWork : public Work {
 public:
  RoundRobinWork(std::shared_ptr<Members> members, std::vector<WorkPtr> parts)
      : members_(std::move(members)), parts_(std::move(parts)) {}

  void wait() override {
    or_abort(*members_, [&] {
      for (const WorkPtr& part : parts_) part->wait();
    });
  }

  void wait_host(milliseconds deadline) override {
    const auto end = std::chrono::steady_clock::now() + deadline;
    for (const WorkPtr& part : parts_) {
      const auto left = end - std::chrono::steady_clock::now();
      const auto ms = std::max(std::chrono::ceil<milliseconds>(left), milliseconds(0));
      try {
        part->wait_host(ms);
      } catch (const CommError& e) {
        if (part->done()) members_->abort(e.what());  // else only late
        throw;
      }
    }
  }

  bool done() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const WorkPtr& w) { return w->done(); });
  }

  int64_t bytes_sent() const override { return parts_.size() == 1 ? parts_[0]->bytes_sent() : -1; }

  Times times() const override {
    Times all = parts_[0]->times();
    for (const WorkPtr& part : parts_) {
      const Times times = part->times();
      all.start_ns = std::min(all.start_ns, times.start_ns);
      all.finish_ns = std::max(all.finish_ns, times.finish_ns);
    }
    return all;
  }

 private:
  const std::shared_ptr<Members> members_;
  const std::vector<WorkPtr> parts_;
};

class RoundRobinGroup : public ProcessGroup, public comm::OpLogSource {
 public:
  explicit RoundRobinGroup(Groups groups)
      : rank_(groups[0]->rank()),
        size_(groups[0]->size()),
        backend_(str("round robin over ", groups.size(), " x ", groups[0]->backend())),
        last_(groups.size()),
        members_(std::make_shared<Members>(std::move(groups))) {}
  ~RoundRobinGroup() override { members_->leave(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const char* backend() const override { return backend_.c_str(); }

  WorkPtr all_reduce(Tensor tensor, ReduceOp op) override {
    return in_turn("all_reduce", [&](ProcessGroup& g) { return g.all_reduce(tensor, op); });
  }
  WorkPtr broadcast(Tensor tensor, int root) override {
    return in_turn("broadcast", [&](ProcessGroup& g) { return g.broadcast(tensor, root); });
  }
  WorkPtr all_gather(Tensor out, Tensor in) override {
    return in_turn("all_gather", [&](ProcessGroup& g) { return g.all_gather(out, in); });
  }
  WorkPtr reduce_scatter(Tensor out, Tensor in, ReduceOp op) override {
    return in_turn("reduce_scatter",
                   [&](ProcessGroup& g) { return g.reduce_scatter(out, in, op); });
  }
  WorkPtr all_to_all(Tensor out, Tensor in) override {
    return in_turn("all_to_all", [&](ProcessGroup& g) { return g.all_to_all(out, in); });
  }
  WorkPtr send(Tensor tensor, int to) override {
    return after_all("send", [&](ProcessGroup& g) { return g.send(tensor, to); });
  }
  WorkPtr recv(Tensor tensor, int from) override {
    return after_all("recv", [&](ProcessGroup& g) { return g.recv(tensor, from); });
  }

  WorkPtr barrier() override {
    members_->check_alive("barrier");
    return or_abort(*members_, [&] {
      std::vector<WorkPtr> parts;
      for (size_t i = 0; i < last_.size(); ++i) {
        parts.push_back(last_[i] = (*members_)[i].barrier());
      }
      return std::make_shared<RoundRobinWork>(members_, std::move(parts));
    });
  }

  std::unique_ptr<ProcessGroup> split(int color, int key) override {
    members_->check_alive("split");
    return or_abort(*members_, [&]() -> std::unique_ptr<ProcessGroup> {
      Groups parts;
      for (size_t i = 0; i < last_.size(); ++i) {
        auto part = (*members_)[i].split(color, key);
        if (part) parts.push_back(std::move(part));
      }
      return parts.empty() ? nullptr : make_round_robin_group(std::move(parts));
    });
  }

  void abort(std::string reason) override { members_->abort(reason); }

  void collect_logs(comm::LogCollection& into) const override {
    for (size_t i = 0; i < last_.size(); ++i) {
      const auto* source = dynamic_cast<const comm::OpLogSource*>(&(*members_)[i]);
      if (source != nullptr) source->collect_logs(into);
    }
  }

 private:
  WorkPtr wrap(size_t i, WorkPtr work) {
    last_[i] = work;
    return std::make_shared<RoundRobinWork>(members_, std::vector<WorkPtr>{std::move(work)});
  }

  /// A call that throws leaves the turn where it is: a wrong argument is this rank's alone.
  template <class Call>
  WorkPtr in_turn(const char* name, Call&& call) {
    members_->check_alive(name);
    return or_abort(*members_, [&] {
      WorkPtr work = wrap(turn_, call((*members_)[turn_]));
      turn_ = (turn_ + 1) % last_.size();
      return work;
    });
  }

  /// The turn stays where it is, for not every rank makes this call.
  template <class Call>
  WorkPtr after_all(const char* name, Call&& call) {
    members_->check_alive(name);
    return or_abort(*members_, [&] {
      for (const WorkPtr& work : last_) {
        if (work) work->wait();
      }
      return wrap(0, call((*members_)[0]));
    });
  }

  const int rank_;
  const int size_;
  const std::string backend_;
  std::vector<WorkPtr> last_;  // of each group
  size_t turn_ = 0;
  const std::shared_ptr<Members> members_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_round_robin_group(Groups groups) {
  check(!groups.empty(), "make_round_robin_group: there is no group");
  for (const auto& group : groups) {
    check(group != nullptr, "make_round_robin_group: one of the groups is null");
    check(group->rank() == groups[0]->rank() && group->size() == groups[0]->size(),
          "make_round_robin_group: wanted groups of the same ranks, got rank ", group->rank(),
          " of ", group->size(), " beside rank ", groups[0]->rank(), " of ", groups[0]->size());
  }
  return std::make_unique<RoundRobinGroup>(std::move(groups));
}

}  // namespace lockstep

#include "lockstep/distributed/comm/emulated_link.h"

#include "lockstep/distributed/comm/wrapping_group.h"
#include "lockstep/tensor/random.h"

#include <bit>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace lockstep {
namespace {

using comm::Op;
using comm::OpKind;
using std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

// A sleeper wakes this late at most, on a machine that is not overloaded.
constexpr std::chrono::microseconds kOversleep{100};

LinkUse use_of(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return LinkUse::kAllReduce;
    case OpKind::kReduceScatter:
      return LinkUse::kReduceScatter;
    case OpKind::kAllGather:
      return LinkUse::kAllGather;
    case OpKind::kAllToAll:
      return LinkUse::kAllToAll;
    case OpKind::kBroadcast:
      return LinkUse::kBroadcast;
    case OpKind::kBarrier:
      return LinkUse::kBarrier;
    case OpKind::kSend:
    case OpKind::kRecv:
      return LinkUse::kLetter;
  }
  return LinkUse::kLetter;
}

class EmulatedLink : public comm::WrappingGroup {
 public:
  EmulatedLink(std::unique_ptr<ProcessGroup> inner, const LinkSpec& link)
      : WrappingGroup(std::move(inner), "emulated " + to_string(link)), link_(link) {
    start();
  }
  ~EmulatedLink() override { stop(); }

 protected:
  void run(Op& op) override {
    if (!op.point_to_point() && link_.straggler == rank()) {
      sleep_until(std::chrono::steady_clock::now() + link_.straggler_delay);
    }
    const WorkPtr work = hand_on(op);
    work->wait();
    op.start_ns = work->times().start_ns;
    sleep_until(TimePoint(nanoseconds(op.start_ns)) + time_of(op));
  }

  /// Only the straggler itself needs to know its new rank.
  std::unique_ptr<ProcessGroup> wrap(std::unique_ptr<ProcessGroup> part) override {
    LinkSpec link = link_;
    link.straggler = link_.straggler == rank() ? part->rank() : -1;
    return make_emulated_link(std::move(part), link);
  }

  void interrupt(const std::string& reason) override {
    {
      const std::lock_guard lock(mutex_);
      interrupted_ = reason;
    }
    woken_.notify_all();
    WrappingGroup::interrupt(reason);
  }

 private:
  nanoseconds time_of(const Op& op) {
    const Tensor& large = op.out.defined() ? op.out : op.in;
    const int64_t elements = op.kind() == OpKind::kReduceScatter ? op.in.numel()
                             : large.defined()                   ? large.numel()
                                                                 : 0;
    const int64_t bytes = elements * static_cast<int64_t>(op.element_size());
    nanoseconds time = link_time(link_, use_of(op.kind()), size(), bytes);
    if (op.point_to_point()) return time;
    const double factor = link_jitter(link_, collectives_++);
    return nanoseconds(static_cast<int64_t>(static_cast<double>(time.count()) * factor));
  }

  /// Throws CommError if it is interrupted.
  void sleep_until(TimePoint end) {
    {
      std::unique_lock lock(mutex_);
      woken_.wait_until(lock, end - kOversleep, [this] { return interrupted_.has_value(); });
      if (interrupted_) throw CommError(*interrupted_);
    }
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
  }

  const LinkSpec link_;
  int64_t collectives_ = 0;  // the worker's
  std::mutex mutex_;
  std::condition_variable woken_;
  std::optional<std::string> interrupted_;
};

}  // namespace

nanoseconds link_time(const LinkSpec& link, LinkUse use, int ranks, int64_t bytes) {
  if (ranks <= 1) return nanoseconds(0);
  const double wire = static_cast<double>(bytes) * 8 / link.gbit_per_s;  // Gbit/s = bits/ns
  const double latency = static_cast<double>(nanoseconds(link.latency).count());
  const double others = ranks - 1;
  const double rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
  double time = 0;
  switch (use) {
    case LinkUse::kAllReduce:
      time = 2 * (others / ranks * wire + others * latency);
      break;
    case LinkUse::kReduceScatter:
    case LinkUse::kAllGather:
    case LinkUse::kAllToAll:
      time = others / ranks * wire + others * latency;
      break;
    case LinkUse::kBroadcast:
      time = rounds * (wire + latency);
      break;
    case LinkUse::kBarrier:
      time = rounds * latency;
      break;
    case LinkUse::kLetter:
      time = wire + latency;
      break;
  }
  return nanoseconds(static_cast<int64_t>(time));
}

double link_jitter(const LinkSpec& link, int64_t index) {
  return 1 + link.jitter * PhiloxRange{link.seed, 0}.uniform(index);
}

std::unique_ptr<ProcessGroup> make_emulated_link(std::unique_ptr<ProcessGroup> inner,
                                                 const LinkSpec& link) {
  check(inner != nullptr, "make_emulated_link: there is no group");
  check_link(link);
  check(link.straggler < inner->size(), "make_emulated_link: the straggler is rank ",
        link.straggler, ", but the ranks are 0 to ", inner->size() - 1);
  return std::make_unique<EmulatedLink>(std::move(inner), link);
}

}  // namespace lockstep

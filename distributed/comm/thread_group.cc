#include "lockstep/distributed/comm/thread_group.h"

#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/distributed/comm/queued_group.h"
#include "lockstep/distributed/comm/reduction.h"
#include "lockstep/distributed/comm/thread_hub.h"

#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

namespace lockstep {
namespace {

using comm::Op;
using comm::OpKind;
using comm::reduce_in_order;

/// Rank r's share of n elements: [first, second).
std::pair<int64_t, int64_t> share(int64_t n, int rank, int size) {
  return {n * rank / size, n * (rank + 1) / size};
}

class ThreadGroup : public comm::QueuedGroup {
 public:
  ThreadGroup(int rank, std::shared_ptr<comm::ThreadHub> hub, const ThreadGroupOptions& options)
      : QueuedGroup(rank, hub->size()), hub_(std::move(hub)), options_(options) {
    start();
  }
  ~ThreadGroup() override {
    stop();
    hub_->leave(rank());
  }

  const char* backend() const override { return "threads"; }

 protected:
  void run(Op& op) override {
    if (options_.delay) options_.delay(rank(), op.sequence);
    op.start_ns = comm::steady_now_ns();
    if (op.kind() == OpKind::kSend) return hub_->send(rank(), op);
    if (op.kind() == OpKind::kRecv) return hub_->recv(rank(), op);
    hub_->meet(rank(), op);
    started(op);
    compute(op);
    hub_->part();
  }

  void interrupt(const std::string& reason) override { hub_->fail(reason); }

  std::unique_ptr<ProcessGroup> make_subgroup(const Subgroup& s) override {
    auto hub = hub_->child(s.split_index, s.color, static_cast<int>(s.members.size()));
    return std::make_unique<ThreadGroup>(s.rank, std::move(hub), options_);
  }

 private:
  void compute(Op& op) {
    const size_t width = op.element_size();
    switch (op.kind()) {
      case OpKind::kAllReduce: {
        // Every rank reduces its own share of all buffers and writes it to all of them.
        const auto [begin, end] = share(op.count(), rank(), size());
        const size_t offset = static_cast<size_t>(begin) * width;
        gather_inputs(offset, [](const Op& o) { return o.out_data; });
        reduce_in_order(op.out_data + offset, inputs_, end - begin, op.signature.dtype,
                        op.signature.reduce);
        for (int r = 0; r < size(); ++r) {
          if (r != rank()) {
            copy(hub_->op(r).out_data + offset, op.out_data + offset,
                 static_cast<size_t>(end - begin) * width);
          }
        }
        return;
      }
      case OpKind::kReduceScatter: {
        const int64_t n = op.count() / size();
        gather_inputs(static_cast<size_t>(n * rank()) * width,
                      [](const Op& o) { return o.in_data; });
        return reduce_in_order(op.out_data, inputs_, n, op.signature.dtype, op.signature.reduce);
      }
      case OpKind::kBroadcast:
        if (rank() == op.signature.peer) return;
        return copy(op.out_data, hub_->op(op.signature.peer).out_data, op.out.nbytes());
      case OpKind::kAllGather: {
        const size_t bytes = static_cast<size_t>(op.count()) * width;
        for (int r = 0; r < size(); ++r) {
          copy(op.out_data + static_cast<size_t>(r) * bytes, hub_->op(r).in_data, bytes);
        }
        return;
      }
      case OpKind::kAllToAll: {
        const size_t bytes = static_cast<size_t>(op.count() / size()) * width;
        for (int r = 0; r < size(); ++r) {
          copy(op.out_data + static_cast<size_t>(r) * bytes,
               hub_->op(r).in_data + static_cast<size_t>(rank()) * bytes, bytes);
        }
        return;
      }
      case OpKind::kBarrier:
      case OpKind::kSend:
      case OpKind::kRecv:
        return;
    }
  }

  template <class Select>
  void gather_inputs(size_t offset, Select select) {
    inputs_.clear();
    for (int r = 0; r < size(); ++r) inputs_.push_back(select(hub_->op(r)) + offset);
  }

  static void copy(std::byte* to, const std::byte* from, size_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  std::shared_ptr<comm::ThreadHub> hub_;
  ThreadGroupOptions options_;
  std::vector<const std::byte*>
      inputs_;  // the worker's, kept so that a warm operation allocates nothing
};

/// Throws the exception again, with the rank before its message where it is one of ours.
[[noreturn]] void rethrow_with_rank(int rank, const std::exception_ptr& error) {
  const std::string prefix = str("rank ", rank, ": ");
  try {
    std::rethrow_exception(error);
  } catch (const ArgumentError& e) {
    throw ArgumentError(prefix + e.what());
  } catch (const IoError& e) {
    throw IoError(prefix + e.what());
  } catch (const CommError& e) {
    throw CommError(prefix + e.what());
  } catch (const UnsupportedError& e) {
    throw UnsupportedError(prefix + e.what());
  } catch (const std::exception& e) {
    throw Error(prefix + e.what());
  }
}

}  // namespace

std::vector<std::unique_ptr<ProcessGroup>> make_thread_groups(int n,
                                                              const ThreadGroupOptions& options) {
  check(n >= 1, "make_thread_groups: wanted at least 1 rank, got ", n);
  auto hub = std::make_shared<comm::ThreadHub>(n, options.timeout);
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (int r = 0; r < n; ++r) groups.push_back(std::make_unique<ThreadGroup>(r, hub, options));
  return groups;
}

void spawn(int n, const std::function<void(ProcessGroup&)>& fn, const ThreadGroupOptions& options) {
  auto groups = make_thread_groups(n, options);
  std::mutex mutex;
  std::exception_ptr first;
  int first_rank = -1;
  bool blames_another = false;  // what came first

  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      auto& group = groups[static_cast<size_t>(r)];
      std::string reason;
      try {
        fn(*group);
      } catch (...) {
        const std::lock_guard lock(mutex);
        reason = str("rank ", r, " has failed");
        try {
          throw;
        } catch (const std::exception& e) {
          reason += str(": ", e.what());
        } catch (...) {
        }
        const bool blames = reason.find(comm::kPeerLost) != std::string::npos;
        if (!first || (blames_another && !blames)) {
          first = std::current_exception();
          first_rank = r;
          blames_another = blames;
        }
      }
      if (!reason.empty()) group->abort(reason);
      group.reset();  // those that still wait for this rank learn that it has left
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) rethrow_with_rank(first_rank, first);
}

}  // namespace lockstep

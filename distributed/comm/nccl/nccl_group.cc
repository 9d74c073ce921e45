#include "lockstep/distributed/comm/nccl/nccl_group.h"

#include "lockstep/base/log.h"
#include "lockstep/distributed/comm/failure_source.h"
#include "lockstep/distributed/comm/group_base.h"
#include "lockstep/distributed/comm/nccl/gpu_claim.h"
#include "lockstep/distributed/comm/nccl/nccl_buffers.h"
#include "lockstep/distributed/comm/nccl/nccl_calls.h"
#include "lockstep/distributed/comm/nccl/nccl_watchdog.h"
#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/distributed/comm/rank_watch.h"
#include "lockstep/distributed/comm/start_store.h"
#include "lockstep/tensor/memory.h"

#include <algorithm>
#include <exception>
#include <numeric>

namespace lockstep {
namespace {

using comm::NcclId;
using comm::NcclResult;
using comm::Op;
using comm::OpKind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFarewell{5000};
constexpr milliseconds kEver{std::chrono::hours(24 * 365)};

/// A copy there, complete, in the order of the current stream.
Tensor moved(const Tensor& x, Device device) {
  Tensor copy = Tensor::empty(x.shape(), x.dtype(), device);
  device_memory(Device::cuda()).copy(copy.mutable_raw(), x.raw(), x.nbytes());
  return copy;
}

class NcclGroup final : public comm::GroupBase,
                        public comm::OpLogSource,
                        public comm::FailureSource {
 public:
  /// `ranks`: the members' numbers where `prefix` began. `watch` is null for a group that is no
  /// part of another.
  NcclGroup(comm::NcclApi& api, std::shared_ptr<Store> store, std::string prefix, int rank,
            std::vector<int> ranks, const NcclGroupOptions& options,
            std::shared_ptr<comm::RankWatch> watch)
      : GroupBase(rank, static_cast<int>(ranks.size())),
        api_(api),
        store_(std::move(store)),
        prefix_(std::move(prefix)),
        options_(options),
        ranks_(std::move(ranks)),
        stream_(device_streams(device_).create(StreamPriority::kHigh)),
        clock_(device_),
        nothing_(moved(Tensor::zeros({1}, DType::kF32), device_)),
        communicator_(api),
        buffers_(api, communicator_),
        watch_(watch != nullptr ? std::move(watch) : new_watch()) {
    watched_ =
        watch_->attach({prefix_, rank, ranks_, log_}, [this](std::string why) { fail(why); });
  }

  ~NcclGroup() override {
    if (std::uncaught_exceptions() > 0 && !flight_->drain(milliseconds(0), true)) {
      fail(str("rank ", rank(), " destroyed its group with operations in flight"));
    }
    flight_->drain(kEver, true);  // the watchdog sees to it that it ends
    watch_->detach(watched_);
    watchdog_.reset();
    if (!flight_->failed() && buffers_.release()) communicator_.close(kFarewell);
    communicator_.abort();
    if (!flight_->drain(kFarewell, false)) flight_->leak();
  }

  /// Collective.
  void connect() {
    Op start;
    start.label = OpText("the start of NCCL");
    log_->begun(start);
    std::string why;
    try {
      const auto deadline = steady_clock::now() + options_.start_timeout;
      comm::StartStore start_store(*store_, prefix_, ranks_[static_cast<size_t>(rank())], ranks_);
      const NcclId id = shared_id(start_store);
      if (!communicator_.connect(size(), id, rank(), {options_.max_ctas}, deadline)) {
        why = lost(start, true, options_.start_timeout, "");
      }
    } catch (const std::exception& error) {
      why = str("NCCL cannot connect the ranks: ", error.what());
    }
    if (!why.empty()) fail(why);
    log_->finished(start, why.empty());
    // The watch may have found another cause, and before.
    if (flight_->failed()) throw CommError(str("make_nccl_group: ", flight_->reason()));
    watchdog_ = std::make_unique<comm::NcclWatchdog>(
        communicator_, *flight_, clock_,
        comm::NcclWatchdogOptions{
            .timeout = options_.timeout,
            .on_error = [this](const Op* op, const std::string& words,
                               bool remote) { fail(why_failed(op, words, remote)); },
            .on_late = [this](const Op& op) { fail(lost(op, true, options_.timeout, "")); }});
  }

  const char* backend() const override { return "nccl"; }
  void abort(std::string reason) override { fail(reason); }
  void collect_logs(comm::LogCollection& into) const override { watch_->collect_logs(into); }

  void on_failure(std::function<void(std::string)> told) override {
    {
      const std::lock_guard lock(mutex_);
      told_ = told;
    }
    if (flight_->failed()) told(flight_->reason());
  }

 protected:
  void check_place(const char* call, const Tensor& tensor) const override {
    check(!tensor.device().is_cpu(), call, ": wanted a tensor on cuda, got one on the host");
  }

  Tensor gather_host(const Tensor& mine) override {
    Tensor all = Tensor::empty({size() * mine.numel()}, mine.dtype(), device_);
    const WorkPtr work = all_gather(all, moved(mine, device_));
    work->wait_host(kEver);
    return moved(all, Device::cpu());
  }

  WorkPtr submit(Op op) override {
    if (op.kind() == OpKind::kBarrier) {
      op.out = nothing_;
      op.out_data = nothing_.mutable_raw();
    }
    op.label = OpLabel::current();
    op.queued_ns = comm::steady_now_ns();
    auto work = std::make_shared<comm::NcclWork>(std::move(op), flight_, device_);
    work->anchor = clock_.anchor();
    stream_->wait(current_stream(device_).record());
    work->start = stream_->record_timed();
    flight_->add(work);
    issue(*work);
    return work;
  }

  /// A communicator of its own, with an id of its own.
  std::unique_ptr<ProcessGroup> make_subgroup(const Subgroup& s) override {
    std::vector<int> ranks;
    for (const int member : s.members) ranks.push_back(ranks_[static_cast<size_t>(member)]);
    auto group = std::make_unique<NcclGroup>(api_, store_,
                                             str(prefix_, "/split", s.split_index, "/", s.color),
                                             s.rank, std::move(ranks), options_, watch_);
    group->connect();
    return group;
  }

 private:
  std::shared_ptr<comm::RankWatch> new_watch() {
    return comm::watch_ranks(*store_, prefix_,
                             {.rank = rank(),
                              .size = size(),
                              .stall_warning = options_.stall_warning,
                              .timeout = options_.timeout});
  }

  /// Rank 0 makes it, or tells why it cannot.
  NcclId shared_id(Store& store) {
    const std::string key = prefix_ + "/id";
    NcclId id;
    if (rank() != 0) {
      const std::string value = store.get(key, options_.start_timeout);
      if (value.size() != id.bytes.size()) throw CommError(value);
      std::copy(value.begin(), value.end(), id.bytes.begin());
      return id;
    }
    const NcclResult result = api_.make_id(id);
    if (result == NcclResult::kSuccess) {
      store.set(key, std::string(id.bytes.begin(), id.bytes.end()));
      return id;
    }
    const std::string words = api_.describe(result, nullptr);
    store.set(key, "rank 0: " + words);
    throw CommError(words);
  }

  void issue(comm::NcclWork& work) {
    const Op& op = work.op;
    bool well = op.count() == 0 && op.kind() != OpKind::kBarrier;
    std::string words;
    if (!well) {
      api_.begin_range(op.label.view());
      try {
        well = (!registers_ || buffers_.prepare(op)) &&
               communicator_.issue([&](comm::NcclComm& communicator) {
                 return call_nccl(api_, op, size(), communicator, *stream_);
               });
      } catch (const std::exception& error) {
        words = error.what();
      }
      api_.end_range();
    }
    // Also where it failed: from there on nothing uses its tensors.
    flight_->issued(work, stream_->record_timed());
    if (well) return;
    if (!words.empty()) fail(why_failed(&op, words, false));
    throw CommError(flight_->reason());
  }

  std::string why_failed(const Op* op, const std::string& words, bool remote) {
    if (op == nullptr) return str(remote ? str(comm::kPeerLost, ": ") : "", "NCCL: ", words);
    if (remote) return lost(*op, false, {}, words);
    return str(describe(*op), ": NCCL: ", words);
  }

  /// `op` has not ended within `most`, or NCCL blames another rank.
  std::string lost(const Op& op, bool late, milliseconds most, const std::string& words) {
    bool certain = false;
    const std::string who = watch_->explain(*watched_, op, late, certain);
    return str(describe(op), ": ", comm::kPeerLost, ": in collective ", op.collective,
               late ? str(", not ended within ", most.count(), " ms: ") : ": ", who,
               words.empty() ? "" : str(" (NCCL: ", words, ")"));
  }

  /// The first reason counts; that of later ones is the first.
  void fail(const std::string& reason) {
    if (!flight_->fail(reason)) return;
    log_->group_failed(reason);
    // Before the abort, by which the peers may find that a connection is closed.
    watch_->tell_failure(*watched_, reason);
    std::function<void(std::string)> told;
    {
      const std::lock_guard lock(mutex_);
      told = told_;
    }
    if (told) told(reason);
    communicator_.abort();  // last: on a broken device it may take its time
  }

  const Device device_ = Device::cuda();
  comm::NcclApi& api_;
  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  const NcclGroupOptions options_;
  const std::vector<int> ranks_;
  const std::shared_ptr<comm::OpLog> log_ = std::make_shared<comm::OpLog>();
  const std::shared_ptr<comm::NcclFlight> flight_ = std::make_shared<comm::NcclFlight>(log_);
  const std::unique_ptr<Stream> stream_;
  DeviceClock clock_;
  Tensor nothing_;  // what barriers reduce
  comm::NcclCommunicator communicator_;
  const bool registers_ = options_.register_buffers && api_.can_register();
  comm::NcclBuffers buffers_;
  const std::shared_ptr<comm::RankWatch> watch_;
  std::shared_ptr<comm::RankWatch::Watched> watched_;
  std::mutex mutex_;
  std::function<void(std::string)> told_;
  std::unique_ptr<comm::NcclWatchdog> watchdog_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_nccl_group(comm::NcclApi& api, std::shared_ptr<Store> store,
                                              const std::string& prefix, int rank, int size,
                                              const NcclGroupOptions& options) {
  check(size >= 1 && rank >= 0 && rank < size,
        "make_nccl_group: wanted 0 <= rank < size, got rank ", rank, " of ", size);
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  try {
    comm::StartStore start(*store, prefix + "/gpu", rank, ranks);
    start.run([&] {
      comm::claim_gpu(start, prefix, {api.device_uuid(), options.host_id}, rank, size,
                      options.start_timeout);
    });
  } catch (const CommError& error) {
    throw CommError(str("make_nccl_group: not all ranks have come: ", error.what()));
  }
  if (options.register_buffers && !api.can_register() && rank == 0) {
    log_warning(
        "nccl: this NCCL cannot register buffers, which 2.19 or later can; it goes on without");
  }
  auto group = std::make_unique<NcclGroup>(api, std::move(store), prefix, rank, std::move(ranks),
                                           options, nullptr);
  group->connect();
  return group;
}

}  // namespace lockstep

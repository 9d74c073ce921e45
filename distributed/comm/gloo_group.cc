#include "lockstep/distributed/comm/gloo_group.h"

#include "lockstep/base/thread_signals.h"
#include "lockstep/distributed/comm/gloo_connect.h"
#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/distributed/comm/queued_group.h"
#include "lockstep/distributed/comm/rank_watch.h"
#include "lockstep/distributed/comm/reduction.h"
#include "lockstep/distributed/comm/signature_exchange.h"

// Gloo's headers use std::runtime_error without including it.
#include <stdexcept>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/types.h>

#include <cstring>
#include <numeric>

namespace lockstep {
namespace {

using comm::Op;
using comm::OpKind;
using comm::reduce_in_order;

constexpr std::chrono::milliseconds kFarewell{1000};
// Gloo's collectives use prefixes up to 8.
constexpr uint8_t kPointToPointPrefix = 0x40;
constexpr uint8_t kNobodysPrefix = 0x41;
constexpr uint8_t kSignaturePrefix = 0x42;

class GlooGroup : public comm::QueuedGroup {
 public:
  /// `ranks`: the members' numbers where `prefix` began. `watch` is null for a group that is no
  /// part of another.
  GlooGroup(std::shared_ptr<Store> store, std::string prefix, int rank, std::vector<int> ranks,
            const GlooGroupOptions& options, std::shared_ptr<comm::RankWatch> watch)
      : QueuedGroup(rank, static_cast<int>(ranks.size()), options.observed),
        store_(std::move(store)),
        prefix_(std::move(prefix)),
        options_(options),
        ranks_(std::move(ranks)),
        context_(comm::connect_gloo(*store_, prefix_, rank, ranks_, options)),
        watch_(watch != nullptr || !options.observed ? std::move(watch) : new_watch()),
        exchange_(*context_, gloo::Slot::build(kSignaturePrefix, 0), options_.timeout),
        sent_(ranks_.size()),
        received_(ranks_.size()) {
    start();
    if (watch_ == nullptr) return;
    watched_ = watch_->attach({prefix_, rank, ranks_, log()},
                              [this](std::string why) { abort(std::move(why)); });
  }
  ~GlooGroup() override {
    if (watch_ != nullptr) watch_->detach(watched_);
    stop();
    // Words of a rank that is ahead may be arriving, in memory that goes before the connections do.
    context_->close();
  }

  const char* backend() const override { return "gloo"; }
  void collect_logs(comm::LogCollection& into) const override {
    if (watch_ != nullptr) watch_->collect_logs(into);
  }

 protected:
  void run(Op& op) override {
    try {
      if (op.point_to_point()) {
        point_to_point(op);
      } else {
        agree(op);
        started(op);
        ++tag_;
        transfer(op);
      }
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& e) {
      throw CommError(why_lost(op, comm::gloo_message(e)));
    }
  }

  /// closeConnections() would leave this rank's own worker waiting for its timeout. A receive that
  /// times out, though, fails every operation of the context and closes all connections, so that
  /// the peers notice: post one that nobody answers.
  void interrupt(const std::string& reason) override {
    const SignalsBlocked blocked;
    // Before the peers lose their connections to this rank, so that they find it.
    if (watched_ != nullptr) watch_->tell_failure(*watched_, reason);
    const uint64_t slot = gloo::Slot::build(kNobodysPrefix, 0);
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      std::byte nothing{};
      const auto buffer = context_->createUnboundBuffer(&nothing, sizeof nothing);
      try {
        buffer->recv(peer, slot);
        buffer->waitRecv(std::chrono::milliseconds(1));
      } catch (const std::exception&) {
        // The time-out; or this connection is closed already, and the next one may not be.
      }
    }
    context_->abort_waits();
  }

  std::unique_ptr<ProcessGroup> make_subgroup(const Subgroup& s) override {
    std::vector<int> ranks;
    for (const int member : s.members) ranks.push_back(ranks_[static_cast<size_t>(member)]);
    return std::make_unique<GlooGroup>(store_, str(prefix_, "/split", s.split_index, "/", s.color),
                                       s.rank, std::move(ranks), options_, watch_);
  }

 private:
  std::shared_ptr<comm::RankWatch> new_watch() {
    return comm::watch_ranks(*store_, prefix_,
                             {.rank = rank(),
                              .size = size(),
                              .stall_warning = options_.stall_warning,
                              .timeout = options_.timeout});
  }

  /// Every rank shows every other what it is about to do. Without this a difference in size would
  /// end the process, for Gloo throws in a thread of its own.
  void agree(const Op& op) {
    comm::RankWords mine{.signature = comm::pack(op.signature, op.sequence)};
    if (is_small(op)) std::memcpy(mine.payload.data(), op.out_data, op.out.nbytes());
    exchange_.exchange(mine);
    const auto& all = exchange_.words();
    const comm::PackedSignature& first = all[0].signature;
    for (size_t r = 1; r < all.size(); ++r) {
      // All but the sequence number, which counts sends and receives too.
      const comm::PackedSignature& other = all[r].signature;
      if (std::equal(other.begin() + 1, other.end(), first.begin() + 1)) continue;
      const std::vector<OpText> labels = exchange_labels(op);
      throw CommError(comm::describe_mismatch(op.sequence, 0, comm::unpack(first),
                                              static_cast<int>(r), comm::unpack(other), labels[0],
                                              labels[r]));
    }
  }

  /// The connections are about to be closed because of something that every rank has found: this
  /// waits until all have, too.
  std::vector<OpText> exchange_labels(const Op& op) {
    static_assert(std::is_trivially_copyable_v<OpText>);
    std::vector<OpText> labels(ranks_.size());
    try {
      gloo::AllgatherOptions o(context_);
      OpText mine = op.label;
      o.setInput(reinterpret_cast<std::byte*>(&mine), sizeof mine);
      o.setOutput(reinterpret_cast<std::byte*>(labels.data()), sizeof mine * labels.size());
      o.setTag(++tag_);
      o.setTimeout(kFarewell);
      gloo::allgather(o);
    } catch (const std::exception&) {
      // A peer that has left already has found it too.
    }
    return labels;
  }

  void transfer(Op& op) {
    // Gloo's all-gather divides by the number of bytes.
    if (op.count() == 0) return;
    switch (op.kind()) {
      case OpKind::kAllReduce:
        if (is_small(op)) return reduce_words(op);
        switch (op.element_size()) {
          case 1:
            return all_reduce_as<uint8_t>(op);
          case 2:
            return all_reduce_as<uint16_t>(op);
          case 4:
            return all_reduce_as<uint32_t>(op);
          default:
            return all_reduce_as<uint64_t>(op);
        }
      case OpKind::kBroadcast: {
        gloo::BroadcastOptions o(context_);
        o.setOutput(op.out_data, op.out.nbytes());
        o.setRoot(op.signature.peer);
        o.setTag(tag_);
        return gloo::broadcast(o);
      }
      case OpKind::kAllGather: {
        gloo::AllgatherOptions o(context_);
        o.setInput(const_cast<std::byte*>(op.in_data), op.in.nbytes());
        o.setOutput(op.out_data, op.out.nbytes());
        o.setTag(tag_);
        return gloo::allgather(o);
      }
      case OpKind::kAllToAll:
        return all_to_all(op.out_data, op.in_data, op.in.nbytes());
      case OpKind::kReduceScatter:
        return reduce_scatter(op);
      case OpKind::kBarrier:
        return;  // to agree on it was the barrier
      case OpKind::kSend:
      case OpKind::kRecv:
        return;
    }
  }

  /// So small that it travels with the signature.
  static bool is_small(const Op& op) {
    return op.kind() == OpKind::kAllReduce && op.count() > 0 &&
           op.out.nbytes() <= comm::RankWords::kMostBytes;
  }

  void reduce_words(Op& op) {
    inputs_.clear();
    for (const comm::RankWords& words : exchange_.words()) inputs_.push_back(words.payload.data());
    reduce_in_order(op.out_data, inputs_, op.count(), op.signature.dtype, op.signature.reduce);
  }

  /// Gloo only needs the width; the reduction knows the dtype.
  template <class Bits>
  void all_reduce_as(Op& op) {
    gloo::AllreduceOptions o(context_);
    o.setOutput(reinterpret_cast<Bits*>(op.out_data), static_cast<size_t>(op.count()));
    o.setReduceFunction(comm::pair_reduction(op.signature.dtype, op.signature.reduce));
    o.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    o.setTag(tag_);
    gloo::allreduce(o);
  }

  void all_to_all(std::byte* out, const std::byte* in, size_t bytes) {
    gloo::AlltoallOptions o(context_);
    o.setInput(const_cast<std::byte*>(in), bytes);
    o.setOutput(out, bytes);
    o.setTag(tag_);
    gloo::alltoall(o);
  }

  /// An exchange of the parts, then a sum in rank order: as many bytes on the wire as a ring, and
  /// exact in f32 for bf16 and f16.
  void reduce_scatter(Op& op) {
    Tensor parts = Tensor::empty({op.count()}, op.signature.dtype);
    std::byte* data = parts.mutable_raw();
    all_to_all(data, op.in_data, parts.nbytes());
    inputs_.clear();
    for (int r = 0; r < size(); ++r) {
      inputs_.push_back(data + static_cast<size_t>(r) * op.out.nbytes());
    }
    reduce_in_order(op.out_data, inputs_, op.out.numel(), op.signature.dtype, op.signature.reduce);
  }

  /// The two ranks exchange what they are about to do, then the sender sends.
  void point_to_point(Op& op) {
    const int peer = op.signature.peer;
    const bool sends = op.kind() == OpKind::kSend;
    uint32_t& count = (sends ? sent_ : received_)[static_cast<size_t>(peer)];
    const uint64_t slot = gloo::Slot::build(kPointToPointPrefix, count++);
    comm::PackedSignature mine = comm::pack(op.signature, op.sequence);
    comm::PackedSignature theirs{};
    const auto mine_buffer = context_->createUnboundBuffer(mine.data(), sizeof mine);
    const auto their_buffer = context_->createUnboundBuffer(theirs.data(), sizeof theirs);
    // The letter's slots are those of its sender, so that letters in both directions do not meet.
    mine_buffer->send(peer, slot + (sends ? 0 : 1));
    their_buffer->recv(peer, slot + (sends ? 1 : 0));
    mine_buffer->waitSend(options_.timeout);
    their_buffer->waitRecv(options_.timeout);
    const comm::Signature other = comm::unpack(theirs);
    if (other.dtype != op.signature.dtype || other.count != op.signature.count) {
      throw CommError(comm::describe_mismatch(op.sequence, rank(), op.signature, peer, other));
    }
    op.start_ns = comm::steady_now_ns();
    auto* data = sends ? const_cast<std::byte*>(op.in_data) : op.out_data;
    const auto buffer =
        context_->createUnboundBuffer(data, static_cast<size_t>(op.count()) * op.element_size());
    if (sends) {
      buffer->send(peer, slot + 2);
      buffer->waitSend(options_.timeout);
    } else {
      buffer->recv(peer, slot + 2);
      buffer->waitRecv(options_.timeout);
    }
  }

  /// The message of an operation in which a connection was lost or Gloo's patience ended.
  std::string why_lost(const Op& op, const std::string& gloo_message) {
    const bool late = gloo_message.find("imed out") != std::string::npos;
    if (watch_ == nullptr) return str(describe(op), ": ", comm::kPeerLost, ": ", gloo_message);
    bool certain = false;
    const std::string who = watch_->explain(*watched_, op, late, certain);
    return str(describe(op), ": ", comm::kPeerLost, ": in collective ", op.collective,
               late ? str(", not ended within ", options_.timeout.count(), " ms: ") : ": ", who,
               certain || late ? "" : str(" (", gloo_message, ")"));
  }

  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  const GlooGroupOptions options_;
  const std::vector<int> ranks_;
  const std::shared_ptr<comm::AbortableContext> context_;
  const std::shared_ptr<comm::RankWatch> watch_;
  std::shared_ptr<comm::RankWatch::Watched> watched_;
  // The worker's from here on.
  uint32_t tag_ = 0;
  comm::SignatureExchange exchange_;
  std::vector<uint32_t> sent_;
  std::vector<uint32_t> received_;
  std::vector<const std::byte*> inputs_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_gloo_group(std::shared_ptr<Store> store,
                                              const std::string& prefix, int rank, int size,
                                              const GlooGroupOptions& options) {
  check(size >= 1 && rank >= 0 && rank < size,
        "make_gloo_group: wanted 0 <= rank < size, got rank ", rank, " of ", size);
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_unique<GlooGroup>(std::move(store), prefix, rank, std::move(ranks), options,
                                     nullptr);
}

}  // namespace lockstep

#include "lockstep/distributed/comm/gloo_group.h"

#include "lockstep/base/thread_signals.h"
#include "lockstep/distributed/comm/gloo_connect.h"
#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/distributed/comm/queued_group.h"
#include "lockstep/distributed/comm/reduction.h"

// Gloo's headers use std::runtime_error without including it.
#include <stdexcept>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/types.h>

#include <cstring>

namespace lockstep {
namespace {

using comm::Op;
using comm::OpKind;
using comm::reduce_in_order;

constexpr std::chrono::milliseconds kFarewell{1000};
constexpr std::chrono::milliseconds kWhoIsGone{200};
// Gloo's collectives use prefixes up to 8.
constexpr uint8_t kPointToPointPrefix = 0x40;
constexpr uint8_t kNobodysPrefix = 0x41;

class GlooGroup : public comm::QueuedGroup {
 public:
  GlooGroup(std::shared_ptr<Store> store, std::string prefix, int rank, int size,
            const GlooGroupOptions& options)
      : QueuedGroup(rank, size),
        store_(std::move(store)),
        prefix_(std::move(prefix)),
        options_(options),
        context_(comm::connect_gloo(*store_, prefix_, rank, size, options)),
        signatures_(static_cast<size_t>(size)),
        sent_(static_cast<size_t>(size)),
        received_(static_cast<size_t>(size)) {
    start();
  }
  ~GlooGroup() override { stop(); }

  const char* backend() const override { return "gloo"; }

 protected:
  void run(Op& op) override {
    try {
      if (op.point_to_point()) {
        point_to_point(op);
      } else {
        agree(op);
        op.start_ns = comm::steady_now_ns();
        ++tag_;
        transfer(op);
      }
    } catch (const CommError&) {
      throw;
    } catch (const std::exception& e) {
      throw CommError(str(describe(op.signature),
                          ": a peer was lost or is late: ", comm::gloo_message(e), who_is_gone()));
    }
  }

  /// closeConnections() would leave this rank's own worker waiting for its timeout. A receive that
  /// times out, though, fails every operation of the context and closes all connections, so that
  /// the peers notice: post one that nobody answers.
  void interrupt(const std::string&) override {
    const SignalsBlocked blocked;
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
  }

  std::unique_ptr<ProcessGroup> make_subgroup(const Subgroup& s) override {
    return std::make_unique<GlooGroup>(store_, str(prefix_, "/split", s.split_index, "/", s.color),
                                       s.rank, static_cast<int>(s.members.size()), options_);
  }

 private:
  /// Every rank shows every other what it is about to do, 32 bytes each. Without this a difference
  /// in size would end the process, for Gloo throws in a thread of its own.
  void agree(const Op& op) {
    comm::PackedSignature mine = comm::pack(op.signature, op.sequence);
    gloo::AllgatherOptions o(context_);
    o.setInput(mine.data(), mine.size());
    o.setOutput(signatures_[0].data(), mine.size() * signatures_.size());
    o.setTag(++tag_);
    gloo::allgather(o);
    for (size_t r = 1; r < signatures_.size(); ++r) {
      // All but the sequence number, which counts sends and receives too.
      if (std::equal(signatures_[r].begin() + 1, signatures_[r].end(),
                     signatures_[0].begin() + 1)) {
        continue;
      }
      farewell();
      throw CommError(comm::describe_mismatch(op.sequence, 0, comm::unpack(signatures_[0]),
                                              static_cast<int>(r), comm::unpack(signatures_[r])));
    }
  }

  /// The connections are about to be closed because of something that every rank has found: wait
  /// until all have.
  void farewell() {
    try {
      gloo::BarrierOptions o(context_);
      o.setTag(++tag_);
      o.setTimeout(kFarewell);
      gloo::barrier(o);
    } catch (const std::exception&) {
      // A peer that has left already has found it too.
    }
  }

  void transfer(Op& op) {
    // Gloo's all-gather divides by the number of bytes.
    if (op.count() == 0) return;
    switch (op.kind()) {
      case OpKind::kAllReduce:
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

  /// What the store knows of ranks that have gone; the store is rank 0's.
  std::string who_is_gone() {
    try {
      return str(" (gone so far: rank ", store_->get(Store::kGone, kWhoIsGone), ")");
    } catch (const CommError& e) {
      const std::string text = e.what();
      return text.starts_with("Store::get") ? "" : " (rank 0's store cannot be reached either)";
    }
  }

  const std::shared_ptr<Store> store_;
  const std::string prefix_;
  const GlooGroupOptions options_;
  const std::shared_ptr<gloo::Context> context_;
  // The worker's from here on.
  uint32_t tag_ = 0;
  std::vector<comm::PackedSignature> signatures_;
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
  return std::make_unique<GlooGroup>(std::move(store), prefix, rank, size, options);
}

}  // namespace lockstep

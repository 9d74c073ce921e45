#include "lockstep/distributed/comm/op.h"

#include <chrono>

namespace lockstep::comm {
namespace {

const char* name_of_kind(OpKind kind) {
  switch (kind) {
    case OpKind::kAllReduce:
      return "all_reduce";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kAllGather:
      return "all_gather";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
    case OpKind::kAllToAll:
      return "all_to_all";
    case OpKind::kSend:
      return "send";
    case OpKind::kRecv:
      return "recv";
    case OpKind::kBarrier:
      return "barrier";
  }
  return "an unknown operation";
}

const char* name_of_reduce(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum, ";
    case ReduceOp::kMax:
      return "max, ";
    case ReduceOp::kMin:
      return "min, ";
  }
  return "an unknown reduction, ";
}

}  // namespace

std::string describe(const Signature& s) {
  if (s.kind == OpKind::kBarrier) return "barrier()";
  std::string text = name_of_kind(s.kind);
  text += '(';
  if (s.kind == OpKind::kAllReduce || s.kind == OpKind::kReduceScatter) {
    text += name_of_reduce(s.reduce);
  }
  text += str(name_of(s.dtype), ", ", s.count, s.count == 1 ? " element" : " elements");
  if (s.kind == OpKind::kBroadcast) text += str(", root ", s.peer);
  if (s.kind == OpKind::kSend) text += str(", to ", s.peer);
  if (s.kind == OpKind::kRecv) text += str(", from ", s.peer);
  return text + ')';
}

std::string describe(const Signature& signature, const OpText& label) {
  return label.empty() ? describe(signature) : str(describe(signature), " [", label.view(), "]");
}

PackedSignature pack(const Signature& s, int64_t sequence) {
  const int64_t bytes = static_cast<int64_t>(s.kind) | static_cast<int64_t>(s.dtype) << 8 |
                        static_cast<int64_t>(s.reduce) << 16;
  return {sequence, bytes, s.peer, s.count};
}

Signature unpack(const PackedSignature& packed) {
  Signature s;
  s.kind = static_cast<OpKind>(packed[1] & 0xff);
  s.dtype = static_cast<DType>(packed[1] >> 8 & 0xff);
  s.reduce = static_cast<ReduceOp>(packed[1] >> 16 & 0xff);
  s.peer = static_cast<int32_t>(packed[2]);
  s.count = packed[3];
  return s;
}

std::string describe_mismatch(int64_t sequence, int rank_a, const Signature& a, int rank_b,
                              const Signature& b, const OpText& label_a, const OpText& label_b) {
  return str("ProcessGroup: the ranks disagree on operation ", sequence, ": rank ", rank_a,
             " calls ", describe(a, label_a), ", rank ", rank_b, " calls ", describe(b, label_b),
             "; every rank must make the same calls in the same order");
}

int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace lockstep::comm

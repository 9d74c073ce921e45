// Op: one call of a ProcessGroup's operation, checked and written down, as the backends pass it
// around.
#pragma once

#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/distributed/comm/process_group.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lockstep::comm {

enum class OpKind : uint8_t {
  kAllReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSend,
  kRecv,
  kBarrier
};

/// What the ranks must agree on. For send and recv, `peer` is the other rank; for broadcast it is
/// the root.
struct Signature {
  OpKind kind = OpKind::kBarrier;
  DType dtype = DType::kU8;
  ReduceOp reduce = ReduceOp::kSum;
  int32_t peer = -1;
  int64_t count = 0;  // elements of the input of one rank

  bool operator==(const Signature&) const = default;
};

struct Op {
  Signature signature;
  Tensor out;  // the one tensor of operations in place; the source of send
  Tensor in;
  std::byte* out_data = nullptr;
  const std::byte* in_data = nullptr;
  int64_t sequence = 0;    // 0, 1, ... within the group, on this rank
  int64_t collective = 0;  // likewise, without letters: the same number on every rank
  int64_t queued_ns = 0;
  int64_t start_ns = 0;   // set by the backend when the transfer begins
  int64_t finish_ns = 0;  // set by it where the transfer ends before the operation does
  OpText label;           // what it is about; each rank may have another

  OpKind kind() const { return signature.kind; }
  bool point_to_point() const { return kind() == OpKind::kSend || kind() == OpKind::kRecv; }
  int64_t count() const { return signature.count; }
  size_t element_size() const { return size_of(signature.dtype); }
};

/// "all_reduce(sum, f32, 1000 elements)".
std::string describe(const Signature& signature);
/// The same and its label, "all_reduce(sum, f32, 1000 elements) [bucket 3: ...]".
std::string describe(const Signature& signature, const OpText& label);
inline std::string describe(const Op& op) { return describe(op.signature, op.label); }

/// As 32 bytes and back, to be compared with the other ranks'. Unpacking never throws.
using PackedSignature = std::array<int64_t, 4>;
PackedSignature pack(const Signature& signature, int64_t sequence);
Signature unpack(const PackedSignature& packed);

/// "the ranks disagree ...: rank 0 calls ..., rank 2 calls ...": for CommError.
std::string describe_mismatch(int64_t sequence, int rank_a, const Signature& a, int rank_b,
                              const Signature& b, const OpText& label_a = {},
                              const OpText& label_b = {});

int64_t steady_now_ns();

}  // namespace lockstep::comm

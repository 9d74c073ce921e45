#include "lockstep/distributed/comm/nccl/nccl_calls.h"

namespace lockstep::comm {
namespace {

NcclResult all_to_all(NcclApi& api, const Op& op, int size, NcclComm& comm, Stream& stream) {
  const auto count = static_cast<size_t>(op.count()) / static_cast<size_t>(size);
  const size_t bytes = count * op.element_size();
  const DType dtype = op.signature.dtype;
  NcclResult first = api.group_start();
  const auto note = [&first](NcclResult result) {
    if (first == NcclResult::kSuccess || first == NcclResult::kInProgress) first = result;
  };
  for (int r = 0; r < size; ++r) {
    const size_t offset = static_cast<size_t>(r) * bytes;
    note(api.send(op.in_data + offset, count, dtype, r, comm, stream));
    note(api.recv(op.out_data + offset, count, dtype, r, comm, stream));
  }
  note(api.group_end());
  return first;
}

}  // namespace

NcclResult call_nccl(NcclApi& api, const Op& op, int size, NcclComm& comm, Stream& stream) {
  const Signature& s = op.signature;
  const auto count = static_cast<size_t>(s.count);
  switch (s.kind) {
    case OpKind::kAllReduce:
    case OpKind::kBarrier:
      return api.all_reduce(op.out_data, op.out_data, static_cast<size_t>(op.out.numel()),
                            op.out.dtype(), s.reduce, comm, stream);
    case OpKind::kBroadcast:
      return api.broadcast(op.out_data, op.out_data, count, s.dtype, s.peer, comm, stream);
    case OpKind::kAllGather:
      return api.all_gather(op.in_data, op.out_data, count, s.dtype, comm, stream);
    case OpKind::kReduceScatter:
      return api.reduce_scatter(op.in_data, op.out_data, static_cast<size_t>(op.out.numel()),
                                s.dtype, s.reduce, comm, stream);
    case OpKind::kAllToAll:
      return all_to_all(api, op, size, comm, stream);
    case OpKind::kSend:
      return api.send(op.in_data, count, s.dtype, s.peer, comm, stream);
    case OpKind::kRecv:
      return api.recv(op.out_data, count, s.dtype, s.peer, comm, stream);
  }
  return NcclResult::kInvalidUsage;
}

}  // namespace lockstep::comm

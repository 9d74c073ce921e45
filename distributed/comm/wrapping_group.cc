#include "lockstep/distributed/comm/wrapping_group.h"

namespace lockstep::comm {

Tensor borrowed(const std::byte* data, int64_t count, DType dtype) {
  return Tensor::borrow(const_cast<std::byte*>(data), {count}, dtype);
}

void WrappingGroup::collect_logs(LogCollection& into) const {
  if (const auto* source = dynamic_cast<const OpLogSource*>(inner_.get())) {
    source->collect_logs(into);
  }
}

std::unique_ptr<ProcessGroup> WrappingGroup::split(int color, int key) {
  barrier()->wait();  // after which the worker rests, for only this thread issues operations
  auto part = inner_->split(color, key);
  return part ? wrap(std::move(part)) : nullptr;
}

WorkPtr WrappingGroup::hand_on(const Op& op) {
  const Signature& s = op.signature;
  const auto out = [&] { return borrowed(op.out_data, op.out.numel(), s.dtype); };
  const auto in = [&] { return borrowed(op.in_data, op.in.numel(), s.dtype); };
  switch (s.kind) {
    case OpKind::kAllReduce:
      return inner_->all_reduce(out(), s.reduce);
    case OpKind::kBroadcast:
      return inner_->broadcast(out(), s.peer);
    case OpKind::kAllGather:
      return inner_->all_gather(out(), in());
    case OpKind::kReduceScatter:
      return inner_->reduce_scatter(out(), in(), s.reduce);
    case OpKind::kAllToAll:
      return inner_->all_to_all(out(), in());
    case OpKind::kSend:
      return inner_->send(in(), s.peer);
    case OpKind::kRecv:
      return inner_->recv(out(), s.peer);
    case OpKind::kBarrier:
      return inner_->barrier();
  }
  throw ArgumentError("ProcessGroup: unknown operation");
}

}  // namespace lockstep::comm

#include "lockstep/distributed/comm/group_base.h"

#include <algorithm>
#include <tuple>

namespace lockstep::comm {
namespace {

Op in_place(OpKind kind, Tensor tensor) {
  Op op;
  op.signature.kind = kind;
  op.signature.dtype = tensor.dtype();
  op.signature.count = tensor.numel();
  // Marks the memory as changed here, in the caller's thread, and not at some moment of the
  // worker's.
  op.out_data = tensor.mutable_raw();
  op.out = std::move(tensor);
  return op;
}

}  // namespace

void GroupBase::check_place(const char* call, const Tensor& tensor) const {
  check(tensor.device().is_cpu(), call, ": wanted a host tensor, got one on ",
        to_string(tensor.device()));
}

void GroupBase::check_tensor(const char* call, const Tensor& tensor) const {
  check(tensor.defined(), call, ": the tensor is undefined");
  check_place(call, tensor);
}

/// Checks two tensors of which `large` holds one part of `small`'s size for each rank.
void GroupBase::check_parts(const char* call, const char* large_name, const Tensor& large,
                            const char* small_name, const Tensor& small, int size) const {
  check_tensor(call, large);
  check_tensor(call, small);
  check(large.dtype() == small.dtype(), call, ": ", large_name, " is ", name_of(large.dtype()),
        " but ", small_name, " is ", name_of(small.dtype()));
  check(large.numel() == small.numel() * size, call, ": wanted ", small.numel() * size,
        " elements in ", large_name, " (", size, " ranks of ", small.numel(), "), got ",
        large.numel());
}

void GroupBase::check_peer(const char* call, const char* what, int peer) const {
  check(peer >= 0 && peer < size_, call, ": ", what, " is ", peer, ", but the ranks are 0 to ",
        size_ - 1);
}

WorkPtr GroupBase::all_reduce(Tensor tensor, ReduceOp reduce) {
  check_tensor("all_reduce", tensor);
  Op op = in_place(OpKind::kAllReduce, std::move(tensor));
  op.signature.reduce = reduce;
  return submit(std::move(op));
}

WorkPtr GroupBase::broadcast(Tensor tensor, int root) {
  check_tensor("broadcast", tensor);
  check_peer("broadcast", "root", root);
  Op op = in_place(OpKind::kBroadcast, std::move(tensor));
  op.signature.peer = root;
  return submit(std::move(op));
}

WorkPtr GroupBase::submit_pair(OpKind kind, Tensor out, Tensor in, ReduceOp reduce, int64_t count) {
  check(!out.shares_memory(in) || out.raw() >= in.raw() + in.nbytes() ||
            in.raw() >= out.raw() + out.nbytes(),
        describe(Signature{kind, in.dtype(), reduce, -1, count}), ": out and in overlap");
  Op op = in_place(kind, std::move(out));
  op.signature.reduce = reduce;
  op.signature.count = count;
  op.in_data = in.raw();
  op.in = std::move(in);
  return submit(std::move(op));
}

WorkPtr GroupBase::all_gather(Tensor out, Tensor in) {
  check_parts("all_gather", "out", out, "in", in, size_);
  const int64_t count = in.numel();
  return submit_pair(OpKind::kAllGather, std::move(out), std::move(in), ReduceOp::kSum, count);
}

WorkPtr GroupBase::reduce_scatter(Tensor out, Tensor in, ReduceOp reduce) {
  check_parts("reduce_scatter", "in", in, "out", out, size_);
  const int64_t count = in.numel();
  return submit_pair(OpKind::kReduceScatter, std::move(out), std::move(in), reduce, count);
}

WorkPtr GroupBase::all_to_all(Tensor out, Tensor in) {
  check_parts("all_to_all", "out", out, "in", in, 1);
  check(in.numel() % size_ == 0, "all_to_all: ", in.numel(),
        " elements cannot be cut into equal parts for ", size_, " ranks");
  const int64_t count = in.numel();
  return submit_pair(OpKind::kAllToAll, std::move(out), std::move(in), ReduceOp::kSum, count);
}

WorkPtr GroupBase::send(Tensor tensor, int to) {
  check_tensor("send", tensor);
  check_peer("send", "to", to);
  check(to != rank_, "send: to is this rank itself (", to, ")");
  Op op;
  op.signature = {OpKind::kSend, tensor.dtype(), ReduceOp::kSum, to, tensor.numel()};
  op.in_data = tensor.raw();
  op.in = std::move(tensor);
  return submit(std::move(op));
}

WorkPtr GroupBase::recv(Tensor tensor, int from) {
  check_tensor("recv", tensor);
  check_peer("recv", "from", from);
  check(from != rank_, "recv: from is this rank itself (", from, ")");
  Op op = in_place(OpKind::kRecv, std::move(tensor));
  op.signature.peer = from;
  return submit(std::move(op));
}

WorkPtr GroupBase::barrier() { return submit(Op{}); }

Tensor GroupBase::gather_host(const Tensor& mine) {
  Tensor all = Tensor::empty({size_ * mine.numel()}, mine.dtype());
  all_gather(all, mine)->wait();
  return all;
}

std::unique_ptr<ProcessGroup> GroupBase::split(int color, int key) {
  const Tensor all = gather_host(Tensor::from<int64_t>({color, key}, {2}));
  const int64_t split_index = splits_++;
  if (color < 0) return nullptr;

  const int64_t* rows = all.data<int64_t>();
  std::vector<std::tuple<int64_t, int>> order;  // (key, rank)
  for (int r = 0; r < size_; ++r) {
    if (rows[2 * r] == color) order.emplace_back(rows[2 * r + 1], r);
  }
  std::sort(order.begin(), order.end());
  Subgroup subgroup{split_index, color, {}, 0};
  for (const auto& [unused_key, r] : order) {
    if (r == rank_) subgroup.rank = static_cast<int>(subgroup.members.size());
    subgroup.members.push_back(r);
  }
  return make_subgroup(subgroup);
}

}  // namespace lockstep::comm

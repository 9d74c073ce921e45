#include "lockstep/tests/distributed/collectives.h"

#include "lockstep/tensor/ops/copy.h"

#include <cmath>
#include <vector>

namespace lockstep::testing {
namespace {

// Values small enough that every dtype, bf16, f16 and u8 included, holds them and their sums
// exactly.
int value_of(int rank, int64_t i) { return 1 + static_cast<int>((i * 7 + rank * 3) % 5); }

template <class T>
Tensor input(int rank, int64_t n, Device device) {
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<T>(static_cast<float>(value_of(rank, i))));
  return ops::to_device(Tensor::from<T>(values, {n}), device);
}

int reduced(int size, int64_t i, ReduceOp op) {
  int result = value_of(0, i);
  for (int r = 1; r < size; ++r) {
    const int v = value_of(r, i);
    if (op == ReduceOp::kSum) result += v;
    if (op == ReduceOp::kMax) result = std::max(result, v);
    if (op == ReduceOp::kMin) result = std::min(result, v);
  }
  return result;
}

Tensor on_host(const Tensor& x) { return ops::to_device(x, Device::cpu()); }

/// `tensor` is on the host.
template <class T>
void expect(const char* what, const Tensor& tensor, int64_t i, int wanted) {
  const T got = tensor.data<T>()[i];
  if (static_cast<double>(static_cast<compute_t<T>>(got)) != wanted) {
    throw Error(str(what, " of ", tensor.numel(), " ", name_of(tensor.dtype()), ": element ", i,
                    " wanted ", wanted, ", got ",
                    static_cast<double>(static_cast<compute_t<T>>(got))));
  }
}

template <class T>
void check_dtype(ProcessGroup& group, int64_t n, Device device) {
  const int rank = group.rank();
  const int size = group.size();
  const DType dtype = dtype_of<T>;
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin}) {
    Tensor t = input<T>(rank, n, device);
    group.all_reduce(t, op)->wait();
    t = on_host(t);
    for (int64_t i = 0; i < n; ++i) expect<T>("all_reduce", t, i, reduced(size, i, op));

    Tensor out = Tensor::empty({n}, dtype, device);
    group.reduce_scatter(out, input<T>(rank, n * size, device), op)->wait();
    out = on_host(out);
    for (int64_t i = 0; i < n; ++i) {
      expect<T>("reduce_scatter", out, i, reduced(size, n * rank + i, op));
    }
  }
  for (int root = 0; root < size; ++root) {
    Tensor t = input<T>(rank, n, device);
    group.broadcast(t, root)->wait();
    t = on_host(t);
    for (int64_t i = 0; i < n; ++i) expect<T>("broadcast", t, i, value_of(root, i));
  }
  Tensor all = Tensor::empty({size, n}, dtype, device);
  group.all_gather(all, input<T>(rank, n, device))->wait();
  Tensor exchanged = Tensor::empty({size, n}, dtype, device);
  group.all_to_all(exchanged, input<T>(rank, n * size, device))->wait();
  all = on_host(all);
  exchanged = on_host(exchanged);
  for (int r = 0; r < size; ++r) {
    for (int64_t i = 0; i < n; ++i) {
      expect<T>("all_gather", all, r * n + i, value_of(r, i));
      expect<T>("all_to_all", exchanged, r * n + i, value_of(r, rank * n + i));
    }
  }
}

/// What the work leaves in the tensor, on the host; on a stream wait() alone returns before.
Tensor after(const WorkPtr& work, const Tensor& tensor) {
  work->wait();
  return on_host(tensor);
}

}  // namespace

void check_collectives(ProcessGroup& group) { check_collectives_on(Device::cpu(), group); }

void check_ring_and_split(ProcessGroup& group) { check_ring_and_split_on(Device::cpu(), group); }

void check_collectives_on(Device device, ProcessGroup& group) {
  // 8 and 16 of some types take as many bytes as Gloo's ranks reduce by their first message.
  for (int64_t n : {0, 1, 3, 8, 16, 17, 1000}) {
    check_dtype<float>(group, n, device);
    check_dtype<double>(group, n, device);
    check_dtype<bf16>(group, n, device);
    check_dtype<f16>(group, n, device);
    check_dtype<int64_t>(group, n, device);
    check_dtype<int32_t>(group, n, device);
    check_dtype<uint8_t>(group, n, device);
    group.barrier()->wait();
  }
  // The device's times are told by the host's clock, which takes the host some time to do.
  const int64_t slack = device.is_cpu() ? 0 : 50'000'000;
  // Many in flight, waited for in another order, give the results of one after the other.
  std::vector<Tensor> tensors;
  std::vector<WorkPtr> works;
  for (int64_t k = 0; k < 20; ++k) {
    tensors.push_back(input<float>(group.rank(), 50 + k, device));
    works.push_back(group.all_reduce(tensors.back()));
  }
  for (size_t k = works.size(); k-- > 0;) {
    const Tensor sum = after(works[k], tensors[k]);
    if (!works[k]->done()) throw Error("a work that was waited for is not done");
    const auto times = works[k]->times();
    if (times.start_ns <= 0 || times.finish_ns < times.start_ns) throw Error("times are not set");
    if (k > 0) {
      after(works[k - 1], tensors[k - 1]);
      if (works[k - 1]->times().finish_ns > times.start_ns + slack) throw Error("out of order");
    }
    for (int64_t i = 0; i < tensors[k].numel(); ++i) {
      expect<float>("all_reduce in flight", sum, i, reduced(group.size(), i, ReduceOp::kSum));
    }
  }
}

void check_ring_and_split_on(Device device, ProcessGroup& group) {
  const int rank = group.rank();
  const int size = group.size();
  const int next = (rank + 1) % size;
  const int previous = (rank + size - 1) % size;
  if (size > 1) {
    Tensor got = Tensor::zeros({10}, DType::kI32, device);
    // Rank 0 sends first; the others receive first.
    if (rank == 0) group.send(input<int32_t>(rank, 10, device), next);
    group.recv(got, previous)->wait();
    if (rank != 0) group.send(input<int32_t>(rank, 10, device), next)->wait();
    got = on_host(got);
    for (int64_t i = 0; i < 10; ++i) expect<int32_t>("recv", got, i, value_of(previous, i));
  }
  // Odd and even ranks, in reverse order; then a group without rank 0.
  const auto half = group.split(rank % 2, -rank);
  const int members = (size + 1 - rank % 2) / 2;
  if (half->size() != members) throw Error("split: wrong size");
  if (half->rank() != members - 1 - rank / 2) throw Error("split: wrong rank");
  check_collectives_on(device, *half);
  const auto rest = group.split(rank == 0 ? -1 : 5, 0);
  if ((rest == nullptr) != (rank == 0)) throw Error("split: rank 0 must get no group");
  if (rest) rest->barrier()->wait();
  group.barrier()->wait();
}

}  // namespace lockstep::testing

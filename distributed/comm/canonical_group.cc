#include "lockstep/distributed/comm/canonical_group.h"

#include "lockstep/distributed/comm/reduction.h"
#include "lockstep/distributed/comm/wrapping_group.h"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

using comm::borrowed;
using comm::Op;
using comm::OpKind;
using comm::PackedSignature;

// Each rank's letter to each other one: what it is about to do, then the other's part.
constexpr size_t kHead = sizeof(PackedSignature);

size_t round_up(size_t bytes) { return (bytes + kHead - 1) / kHead * kHead; }

/// Memory that is kept from one operation to the next. Zeros at first, for padding goes over the
/// wire.
std::byte* at_least(Tensor& scratch, size_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  if (!scratch.defined() || scratch.numel() < wanted) {
    scratch = Tensor();
    scratch = Tensor::zeros({wanted}, DType::kU8);
  }
  return scratch.mutable_raw();
}

/// How the elements of one reduction lie: rank r has those from r * part on.
struct Parts {
  int64_t part;   // elements of a part, the last ones' padding included
  int64_t count;  // elements of all, without padding
  size_t width;   // bytes of an element
  size_t letter;  // bytes of a head and a part

  int64_t begin(int rank) const { return std::min(part * rank, count); }
  int64_t size(int rank) const { return std::min(part * (rank + 1), count) - begin(rank); }
  size_t bytes(int rank) const { return static_cast<size_t>(size(rank)) * width; }
};

class CanonicalGroup : public comm::WrappingGroup {
 public:
  explicit CanonicalGroup(std::unique_ptr<ProcessGroup> inner)
      : WrappingGroup(std::move(inner), "canonical"), inputs_(static_cast<size_t>(size())) {
    start();
  }
  ~CanonicalGroup() override { stop(); }

 protected:
  void run(Op& op) override {
    if (op.kind() != OpKind::kAllReduce && op.kind() != OpKind::kReduceScatter) {
      return transfer(op, hand_on(op));
    }
    try {
      op.kind() == OpKind::kAllReduce ? all_reduce_in_order(op) : reduce_scatter_in_order(op);
    } catch (const CommError& e) {
      // It names the calls of inner_, which nobody has written.
      throw CommError(str(describe(op.signature), " in rank order: ", e.what()));
    }
  }

  std::unique_ptr<ProcessGroup> wrap(std::unique_ptr<ProcessGroup> part) override {
    return make_canonical_group(std::move(part));
  }

 private:
  void transfer(Op& op, const WorkPtr& work) {
    work->wait();
    const Work::Times times = work->times();
    if (op.start_ns == 0) op.start_ns = times.start_ns;
    op.finish_ns = times.finish_ns;
  }

  Parts parts_of(const Op& op, int64_t part) const {
    const size_t width = op.element_size();
    return {part, op.count(), width, kHead + round_up(static_cast<size_t>(part) * width)};
  }

  void all_reduce_in_order(Op& op) {
    const Parts parts = parts_of(op, (op.count() + size() - 1) / size());
    exchange(op, parts, op.out_data);
    if (op.count() == 0) return;
    // The letters have gone: their memory takes the sums.
    const size_t bytes = static_cast<size_t>(parts.part) * parts.width;
    std::byte* sums = letters_.mutable_raw();
    add(op, parts, sums);
    const auto part_bytes = static_cast<int64_t>(bytes);
    const Tensor mine = borrowed(sums, part_bytes, DType::kU8);
    if (parts.part * size() == op.count()) {
      const Tensor all = borrowed(op.out_data, part_bytes * size(), DType::kU8);
      return transfer(op, inner().all_gather(all, mine));
    }
    std::byte* padded = at_least(received_, bytes * static_cast<size_t>(size()));
    const Tensor all = borrowed(padded, part_bytes * size(), DType::kU8);
    transfer(op, inner().all_gather(all, mine));
    std::memcpy(op.out_data, padded, op.out.nbytes());
  }

  void reduce_scatter_in_order(Op& op) {
    const Parts parts = parts_of(op, op.out.numel());
    exchange(op, parts, op.in_data);
    if (op.count() > 0) add(op, parts, op.out_data);
  }

  /// Sends each rank its part of `data`; received_ then holds the letters of all. Throws if they
  /// call something else.
  void exchange(Op& op, const Parts& parts, const std::byte* data) {
    const PackedSignature head = comm::pack(op.signature, op.sequence);
    const size_t all = parts.letter * static_cast<size_t>(size());
    std::byte* letter = at_least(letters_, all);
    for (int r = 0; r < size(); ++r, letter += parts.letter) {
      std::memcpy(letter, head.data(), kHead);
      const size_t from = static_cast<size_t>(parts.begin(r)) * parts.width;
      if (parts.bytes(r) > 0) std::memcpy(letter + kHead, data + from, parts.bytes(r));
    }
    const std::byte* answers = at_least(received_, all);
    transfer(op,
             inner().all_to_all(borrowed(answers, static_cast<int64_t>(all), DType::kU8),
                                borrowed(letters_.raw(), static_cast<int64_t>(all), DType::kU8)));
    for (int r = 0; r < size(); ++r) {
      inputs_[static_cast<size_t>(r)] = answers + static_cast<size_t>(r) * parts.letter + kHead;
    }
    compare(op);
  }

  PackedSignature head_of(int rank) const {
    PackedSignature head;
    std::memcpy(head.data(), inputs_[static_cast<size_t>(rank)] - kHead, kHead);
    return head;
  }

  void compare(const Op& op) {
    const comm::Signature first = comm::unpack(head_of(0));
    for (int r = 1; r < size(); ++r) {
      const comm::Signature other = comm::unpack(head_of(r));
      if (other == first) continue;
      try {
        // All find it: none may close the connections while another still reads its letters.
        inner().barrier()->wait();
      } catch (const CommError&) {
        // One that has left already has found it too.
      }
      throw CommError(comm::describe_mismatch(op.sequence, 0, first, r, other));
    }
  }

  void add(const Op& op, const Parts& parts, std::byte* out) {
    comm::reduce_in_order(out, inputs_, parts.size(rank()), op.signature.dtype,
                          op.signature.reduce);
  }

  // The worker's.
  Tensor letters_;
  Tensor received_;
  std::vector<const std::byte*> inputs_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_canonical_group(std::unique_ptr<ProcessGroup> inner) {
  check(inner != nullptr, "make_canonical_group: there is no group");
  return std::make_unique<CanonicalGroup>(std::move(inner));
}

}  // namespace lockstep

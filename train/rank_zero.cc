#include "lockstep/train/rank_zero.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/distributed/comm/peer_lost.h"

#include <cstring>
#include <exception>

namespace lockstep {

std::vector<std::byte> broadcast_from_rank_zero(ProcessGroup& group, const char* what,
                                                const std::function<std::vector<std::byte>()>& fn) {
  const OpLabel label(what);
  std::vector<std::byte> bytes;
  std::exception_ptr failure;
  int64_t size = -1;  // says that it failed
  if (group.rank() == 0) {
    try {
      bytes = fn();
      size = static_cast<int64_t>(bytes.size());
    } catch (...) {
      failure = std::current_exception();
    }
  }
  Tensor announced = Tensor::from<int64_t>({size}, Shape{1});
  group.broadcast(announced, 0)->wait();
  size = announced.data<int64_t>()[0];
  if (failure) std::rethrow_exception(failure);
  // The launcher knows by kPeerLost that this is not the rank to name.
  if (size < 0) {
    throw CommError(str(what, ": ", comm::kPeerLost, ": rank 0 failed; its message says why"));
  }
  if (size == 0 || group.size() == 1) return bytes;

  Tensor contents = Tensor::empty(Shape{size}, DType::kU8);
  const auto length = static_cast<size_t>(size);
  if (group.rank() == 0) std::memcpy(contents.mutable_raw(), bytes.data(), length);
  group.broadcast(contents, 0)->wait();
  if (group.rank() != 0) bytes.assign(contents.raw(), contents.raw() + length);
  return bytes;
}

void run_on_rank_zero(ProcessGroup& group, const char* what, const std::function<void()>& fn) {
  broadcast_from_rank_zero(group, what, [&] {
    fn();
    return std::vector<std::byte>();
  });
}

}  // namespace lockstep

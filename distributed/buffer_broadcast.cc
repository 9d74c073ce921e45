#include "lockstep/distributed/buffer_broadcast.h"

#include "lockstep/distributed/comm/op_label.h"

#include <cstring>
#include <utility>

namespace lockstep {

BufferBroadcast::BufferBroadcast(std::vector<NamedBuffer> buffers, ProcessGroup& group,
                                 std::function<int()> root)
    : group_(group), root_(std::move(root)) {
  int64_t bytes = 0;
  for (NamedBuffer& named : buffers) {
    if (named.buffer.device().is_cpu()) {
      bytes += static_cast<int64_t>(named.buffer.nbytes());
      on_host_.push_back(std::move(named.buffer));
    } else {
      on_device_.push_back(std::move(named.buffer));
    }
  }
  message_ = Tensor::zeros({bytes}, DType::kU8);
}

BufferBroadcast::~BufferBroadcast() {
  for (const WorkPtr& work : works_) {
    try {
      work->wait();
    } catch (const std::exception&) {
      // Whoever uses the group next is told; here the memory only has to be free.
    }
  }
}

void BufferBroadcast::start() {
  if (group_.size() == 1) return;
  const OpLabel label("buffers");
  wait();  // for what a backward that failed has left; those values are old
  const int root = root_ ? root_() : 0;
  if (!on_host_.empty()) {
    std::byte* to = message_.mutable_raw();
    for (const Tensor& buffer : on_host_) {
      std::memcpy(to, buffer.raw(), buffer.nbytes());
      to += buffer.nbytes();
    }
    works_.push_back(group_.broadcast(message_, root));
  }
  for (const Tensor& buffer : on_device_) works_.push_back(group_.broadcast(buffer, root));
}

void BufferBroadcast::wait() {
  for (const WorkPtr& work : std::exchange(works_, {})) work->wait();
}

void BufferBroadcast::finish() {
  if (works_.empty()) return;
  wait();
  const std::byte* from = message_.raw();
  for (Tensor& buffer : on_host_) {
    if (std::memcmp(buffer.raw(), from, buffer.nbytes()) != 0) {
      std::memcpy(buffer.mutable_raw(), from, buffer.nbytes());
    }
    from += buffer.nbytes();
  }
}

}  // namespace lockstep

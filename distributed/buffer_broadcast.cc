#include "lockstep/distributed/buffer_broadcast.h"

#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/tensor/memory.h"

#include <cstring>
#include <utility>

namespace lockstep {

BufferBroadcast::BufferBroadcast(std::vector<NamedBuffer> buffers, ProcessGroup& group,
                                 std::function<int()> root)
    : group_(group), root_(std::move(root)) {
  for (NamedBuffer& named : buffers) {
    messages_[named.buffer.device().is_cpu() ? 0 : 1].buffers.push_back(std::move(named.buffer));
  }
  for (auto& [tensors, bytes] : messages_) {
    int64_t length = 0;
    for (const Tensor& buffer : tensors) length += static_cast<int64_t>(buffer.nbytes());
    if (length > 0) bytes = Tensor::zeros({length}, DType::kU8, tensors.front().device());
  }
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
  sender_ = root_ ? root_() : 0;
  for (auto& [tensors, bytes] : messages_) {
    if (!bytes.defined()) continue;
    std::byte* to = bytes.mutable_raw();
    for (const Tensor& buffer : tensors) {
      device_memory(buffer.device()).copy(to, buffer.raw(), buffer.nbytes());
      to += buffer.nbytes();
    }
    works_.push_back(group_.broadcast(bytes, sender_));
  }
}

void BufferBroadcast::wait() {
  for (const WorkPtr& work : std::exchange(works_, {})) work->wait();
}

void BufferBroadcast::finish() {
  if (works_.empty()) return;
  wait();
  for (auto& [tensors, bytes] : messages_) {
    if (!bytes.defined()) continue;
    const std::byte* from = bytes.raw();
    for (Tensor& buffer : tensors) {
      // A device's are not compared: nobody waits for it here.
      const bool same = buffer.device().is_cpu()
                            ? std::memcmp(buffer.raw(), from, buffer.nbytes()) == 0
                            : group_.rank() == sender_;
      if (!same) device_memory(buffer.device()).copy(buffer.mutable_raw(), from, buffer.nbytes());
      from += buffer.nbytes();
    }
  }
}

}  // namespace lockstep

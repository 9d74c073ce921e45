#include "lockstep/distributed/comm/abortable_context.h"

#include <chrono>
#include <mutex>
#include <set>
#include <utility>

namespace lockstep::comm {

using UnboundBuffer = gloo::transport::UnboundBuffer;

/// Hands everything on to Gloo's own, and knows the buffers that are in use.
class AbortableContext::Transport : public gloo::transport::Context {
 public:
  explicit Transport(std::shared_ptr<gloo::transport::Context> inner)
      : gloo::transport::Context(inner->rank, inner->size), inner_(std::move(inner)) {}

  std::unique_ptr<gloo::transport::Pair>& getPair(int rank) override {
    return inner_->getPair(rank);
  }
  std::unique_ptr<gloo::transport::Pair>& createPair(int rank) override {
    return inner_->createPair(rank);
  }
  std::unique_ptr<UnboundBuffer> createUnboundBuffer(void* ptr, size_t size) override;

  void add(UnboundBuffer* buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.insert(buffer);
  }
  void remove(UnboundBuffer* buffer) {
    const std::lock_guard lock(mutex_);
    buffers_.erase(buffer);
  }
  void throw_if_aborted() {
    const std::lock_guard lock(mutex_);
    if (aborted_) throw std::runtime_error("the group has failed");
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
    for (UnboundBuffer* buffer : buffers_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }

 private:
  const std::shared_ptr<gloo::transport::Context> inner_;
  std::mutex mutex_;
  std::set<UnboundBuffer*> buffers_;  // Gloo's own
  bool aborted_ = false;
};

class AbortableContext::Buffer : public UnboundBuffer {
 public:
  Buffer(std::unique_ptr<UnboundBuffer> inner, Transport& transport)
      : UnboundBuffer(inner->ptr, inner->size), inner_(std::move(inner)), transport_(transport) {
    transport_.add(inner_.get());
  }
  ~Buffer() override { transport_.remove(inner_.get()); }

  bool waitRecv(int* rank, std::chrono::milliseconds timeout) override {
    transport_.throw_if_aborted();
    if (!inner_->waitRecv(rank, timeout)) transport_.throw_if_aborted();
    return true;
  }
  bool waitSend(int* rank, std::chrono::milliseconds timeout) override {
    transport_.throw_if_aborted();
    if (!inner_->waitSend(rank, timeout)) transport_.throw_if_aborted();
    return true;
  }
  void abortWaitRecv() override { inner_->abortWaitRecv(); }
  void abortWaitSend() override { inner_->abortWaitSend(); }
  void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->send(to, slot, offset, bytes);
  }
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->recv(from, slot, offset, bytes);
  }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override {
    inner_->recv(std::move(from), slot, offset, bytes);
  }

 private:
  const std::unique_ptr<UnboundBuffer> inner_;
  Transport& transport_;
};

std::unique_ptr<UnboundBuffer> AbortableContext::Transport::createUnboundBuffer(void* ptr,
                                                                                size_t size) {
  return std::make_unique<Buffer>(inner_->createUnboundBuffer(ptr, size), *this);
}

std::string AbortableContext::listen(std::shared_ptr<gloo::transport::Device> device,
                                     std::chrono::milliseconds timeout) {
  device_ = std::move(device);
  transportContext_ = device_->createContext(rank, size);
  transportContext_->setTimeout(timeout);
  std::string addresses;
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::vector<char> address = transportContext_->createPair(peer)->address().bytes();
    if (addresses.empty()) addresses.assign(address.size() * static_cast<size_t>(size), '\0');
    addresses.replace(address.size() * static_cast<size_t>(peer), address.size(), address.data(),
                      address.size());
  }
  return addresses;
}

void AbortableContext::connect(int peer, const std::string& addresses) {
  const auto length = static_cast<std::ptrdiff_t>(addresses.size()) / size;
  const auto mine = addresses.begin() + length * rank;
  transportContext_->getPair(peer)->connect(std::vector<char>(mine, mine + length));
}

void AbortableContext::close() {
  for (int peer = 0; peer < size; ++peer) {
    if (peer != rank) transportContext_->getPair(peer)->close();
  }
}

void AbortableContext::make_abortable() {
  transport_ = std::make_shared<Transport>(std::move(transportContext_));
  transportContext_ = transport_;
}

void AbortableContext::abort_waits() { transport_->abort(); }

}  // namespace lockstep::comm

#include "lockstep/tensor/cuda/stream.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/runtime.h"

#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::cuda {
namespace {

/// Events cost a driver call to make, so they are kept for reuse. Never destroyed, as the driver
/// may be gone by then.
class EventPool {
 public:
  static EventPool& get() {
    static auto* pool = new EventPool;
    return *pool;
  }
  cudaEvent_t take() {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        const cudaEvent_t event = free_.back();
        free_.pop_back();
        return event;
      }
    }
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    return event;
  }
  void give(cudaEvent_t event) {
    std::lock_guard lock(mutex_);
    free_.push_back(event);
  }

 private:
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

class CudaEvent final : public Event {
 public:
  CudaEvent() : event_(EventPool::get().take()) {}
  ~CudaEvent() override { EventPool::get().give(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool done() const override {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  void wait_host() const override {
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  cudaEvent_t native() const { return event_; }

 private:
  cudaEvent_t event_;
};

thread_local CudaStream* current = nullptr;

/// Every thread has a first stream of its own, so that ranks on threads do not wait for each other.
/// Leaked with the thread's end: tensors it freed may still be in use there.
CudaStream& current_cuda_stream() {
  static thread_local CudaStream* first = nullptr;
  if (current != nullptr) return *current;
  if (first == nullptr) first = new CudaStream;
  return *first;
}

Stream& current_stream_of_thread() { return current_cuda_stream(); }

Stream* exchange_current(Stream* stream) {
  return std::exchange(current, static_cast<CudaStream*>(stream));
}

std::unique_ptr<Stream> create_stream() { return std::make_unique<CudaStream>(); }

}  // namespace

CudaStream::CudaStream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

EventPtr CudaStream::record() {
  auto event = std::make_shared<CudaEvent>();
  check_cuda(cudaEventRecord(event->native(), stream_), "cudaEventRecord");
  return event;
}

void CudaStream::wait(const EventPtr& event) {
  const auto& recorded = static_cast<const CudaEvent&>(*event);
  check_cuda(cudaStreamWaitEvent(stream_, recorded.native(), 0), "cudaStreamWaitEvent");
}

const DeviceStreams& cuda_streams() {
  static const DeviceStreams streams{current_stream_of_thread, exchange_current, create_stream};
  return streams;
}

cudaStream_t current_native_stream() { return current_cuda_stream().native(); }

}  // namespace lockstep::cuda

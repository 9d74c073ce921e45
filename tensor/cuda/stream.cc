#include "lockstep/tensor/cuda/stream.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/runtime.h"

#include <cmath>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::cuda {
namespace {

/// Events cost a driver call to make, so they are kept for reuse. Never destroyed, as the driver
/// may be gone by then.
class EventPool {
 public:
  explicit EventPool(unsigned flags) : flags_(flags) {}
  static EventPool& get(bool timed) {
    static auto* timed_ones = new EventPool(cudaEventDefault);
    static auto* others = new EventPool(cudaEventDisableTiming);
    return timed ? *timed_ones : *others;
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
    bind_device();
    check_cuda(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreate");
    return event;
  }
  void give(cudaEvent_t event) {
    std::lock_guard lock(mutex_);
    free_.push_back(event);
  }

 private:
  const unsigned flags_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;
};

class CudaEvent final : public Event {
 public:
  explicit CudaEvent(bool timed) : timed_(timed), event_(EventPool::get(timed).take()) {}
  ~CudaEvent() override { EventPool::get(timed_).give(event_); }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  // Any thread may ask, a watchdog's too: unbound, it would make a context on the first GPU.
  bool done() const override {
    bind_device();
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      cudaGetLastError();  // an answer, not an error, which must not fail the next launch
      return false;
    }
    check_cuda(status, "cudaEventQuery");
    return true;
  }
  void wait_host() const override {
    bind_device();
    check_cuda(cudaEventSynchronize(event_), "cudaEventSynchronize");
  }
  int64_t nanoseconds_since(const Event& earlier) const override {
    bind_device();
    float ms = 0;
    const cudaEvent_t from = static_cast<const CudaEvent&>(earlier).event_;
    check_cuda(cudaEventElapsedTime(&ms, from, event_), "cudaEventElapsedTime");
    return std::llround(static_cast<double>(ms) * 1e6);
  }
  cudaEvent_t native() const { return event_; }

 private:
  const bool timed_;
  cudaEvent_t event_;
};

thread_local CudaStream* current = nullptr;

/// Every thread has a first stream of its own, so that ranks on threads do not wait for each other.
/// Leaked with the thread's end: tensors it freed may still be in use there.
CudaStream& current_cuda_stream() {
  static thread_local CudaStream* first = nullptr;
  bind_device();
  if (current != nullptr) return *current;
  if (first == nullptr) first = new CudaStream;
  return *first;
}

Stream& current_stream_of_thread() { return current_cuda_stream(); }

Stream* exchange_current(Stream* stream) {
  return std::exchange(current, static_cast<CudaStream*>(stream));
}

std::unique_ptr<Stream> create_stream(StreamPriority priority) {
  return std::make_unique<CudaStream>(priority);
}

EventPtr record_on(cudaStream_t stream, bool timed) {
  bind_device();
  auto event = std::make_shared<CudaEvent>(timed);
  check_cuda(cudaEventRecord(event->native(), stream), "cudaEventRecord");
  return event;
}

}  // namespace

CudaStream::CudaStream(StreamPriority priority) {
  bind_device();
  int least = 0;
  int greatest = 0;  // greater priorities are lower numbers
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
             "cudaDeviceGetStreamPriorityRange");
  const int number = priority == StreamPriority::kHigh ? greatest : least;
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, number),
             "cudaStreamCreate");
}

CudaStream::~CudaStream() { cudaStreamDestroy(stream_); }

EventPtr CudaStream::record() { return record_on(stream_, false); }

EventPtr CudaStream::record_timed() { return record_on(stream_, true); }

void CudaStream::wait(const EventPtr& event) {
  bind_device();
  const auto& recorded = static_cast<const CudaEvent&>(*event);
  check_cuda(cudaStreamWaitEvent(stream_, recorded.native(), 0), "cudaStreamWaitEvent");
}

const DeviceStreams& cuda_streams() {
  static const DeviceStreams streams{current_stream_of_thread, exchange_current, create_stream};
  return streams;
}

cudaStream_t native_stream(Stream& stream) { return static_cast<CudaStream&>(stream).native(); }

cudaStream_t current_native_stream() { return current_cuda_stream().native(); }

}  // namespace lockstep::cuda

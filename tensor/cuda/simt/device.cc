#include "lockstep/tensor/cuda/simt/device.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/caching_allocator.h"
#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/live.h"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace lockstep::simt {
namespace {

constexpr int kPoison = 0xFF;  // NaN in every floating dtype, -1 in the others

using Work = std::vector<std::function<void()>>;

class SimtGraph final : public DeviceGraph {
 public:
  explicit SimtGraph(Work work) : work_(std::move(work)) {}
  void replay(Stream&) override {
    for (const auto& each : work_) each();
  }

 private:
  Work work_;
};

class SimtStream final : public Stream {
 public:
  EventPtr record() override { return host().record(); }
  EventPtr record_timed() override {
    require_no_capture("a timed event is recorded");
    return host().record_timed();
  }
  void wait(const EventPtr&) override {}
  void begin_capture() override {
    check(!captured_, "simt: this stream captures already");
    captured_.emplace();
    blocks_.clear();
  }
  std::unique_ptr<DeviceGraph> end_capture() override {
    return std::make_unique<SimtGraph>(*std::exchange(captured_, std::nullopt));
  }
  void require_no_capture(const char* what) const {
    if (captured_) throw Error(str("simt: ", what, " while work is captured"));
  }

  static Stream& host() { return current_stream(Device::cpu()); }

  std::optional<Work> captured_;
  std::set<void*> blocks_;  // handed out within the capture
};

thread_local SimtStream* chosen = nullptr;

SimtStream& current() {
  // Leaked with the thread's end: what lives longer may still free memory there.
  static thread_local auto* first = new SimtStream;
  return chosen != nullptr ? *chosen : *first;
}

void* get_memory(size_t bytes) {
  current().require_no_capture("memory is asked of the system");
  return std::aligned_alloc(256, bytes);
}

class PoisoningAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    void* const memory = blocks_.allocate(bytes);
    if (current().captured_) current().blocks_.insert(memory);
    return memory;
  }
  void deallocate(void* memory, size_t bytes) noexcept override {
    // A block of before the capture is freed once, now; the graph must not do it again.
    const bool captured = current().captured_.has_value();
    if (!captured || current().blocks_.contains(memory)) {
      enqueue([=] { std::memset(memory, kPoison, size_class(bytes)); });
    }
    blocks_.deallocate(memory, bytes);
  }
  AllocatorStats stats() const override { return blocks_.stats(); }
  void release_cached() override { blocks_.release_cached(); }
  void hold(const void* stream, bool on) override { blocks_.hold(stream, on); }

 private:
  CachingAllocator blocks_{get_memory, std::free,
                           [] { return static_cast<const void*>(&current()); }};
};

void zero(void* memory, size_t bytes) {
  check(!LiveNumbers::refreshing(), "simt: memory is cleared in a refresh");
  enqueue([=] { std::memset(memory, 0, bytes); });
}

/// Host and device look alike, so within a capture every copy is refused; ops::copy is a kernel.
void copy(void* to, const void* from, size_t bytes) {
  current().require_no_capture("the host copies to or from the device");
  check(!LiveNumbers::refreshing(), "simt: memory is copied in a refresh");
  std::memcpy(to, from, bytes);
}

Stream& current_stream_of_thread() { return current(); }
Stream* exchange_current(Stream* stream) {
  return std::exchange(chosen, static_cast<SimtStream*>(stream));
}
std::unique_ptr<Stream> create(StreamPriority) { return std::make_unique<SimtStream>(); }

}  // namespace

void enqueue(std::function<void()> work) {
  if (current().captured_) {
    current().captured_->push_back(std::move(work));
  } else {
    work();
  }
}

const DeviceMemory& device_memory() {
  static auto* allocator = new PoisoningAllocator;  // tensors of static lifetime may outlive it
  static const DeviceMemory memory{*allocator, zero, copy};
  return memory;
}

const DeviceStreams& device_streams() {
  static const DeviceStreams streams{current_stream_of_thread, exchange_current, create};
  return streams;
}

}  // namespace lockstep::simt

// Numbers that kernels take from the host and that change from step to step: a learning rate, a
// correction of bias. As an argument such a number would be part of a captured graph
// (device_graph.h) for good. So kernels take it as a Live: a value, or, where work is captured, a
// place in a block on the device, which is refreshed before each replay. How the number is
// computed is told once, by the code that launches the kernel: a refresh runs that code again, with
// its counters, and launches nothing.
#pragma once

#include "lockstep/tensor/tensor.h"

#include <cstddef>
#include <type_traits>
#include <vector>

namespace lockstep {

/// A number, or a struct of some, for a kernel.
template <class T>
struct Live {
  T value{};
  const T* at = nullptr;  // on the device; null: `value`
  constexpr T get() const { return at != nullptr ? *at : value; }
};

/// The block. One thread at a time.
class LiveNumbers {
 public:
  explicit LiveNumbers(Device device);

  enum class Pass {
    kCapture,  // numbers get their places
    kRefresh,  // numbers are written to the places of the capture; no kernel is launched
  };
  /// While one lives, live() of this thread uses the block. A refresh must ask for the same numbers
  /// in the same order as the capture; finish() throws Error for fewer, live() for more.
  class [[nodiscard]] Scope {
   public:
    Scope(LiveNumbers& numbers, Pass pass);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    void finish();

   private:
    LiveNumbers& numbers_;
  };

  /// Brings the numbers to the device, on the current stream.
  void upload();

  /// Where a copy of the `bytes` bytes at `value` will be; null outside of a scope.
  static const void* place(const void* value, size_t bytes);
  /// Whether this thread refreshes, so that launching a kernel does nothing.
  static bool refreshing() { return current_ != nullptr && current_->pass_ == Pass::kRefresh; }

 private:
  static inline thread_local LiveNumbers* current_ = nullptr;

  Tensor block_;  // u8, on the device
  std::vector<std::byte> image_;
  size_t used_ = 0, at_ = 0;  // bytes: of the capture, and so far in this pass
  Pass pass_ = Pass::kCapture;
};

/// To be called by who launches a kernel.
template <class T>
Live<T> live(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {value, static_cast<const T*>(LiveNumbers::place(&value, sizeof value))};
}

}  // namespace lockstep

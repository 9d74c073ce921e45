// Fiber: a stack of its own that the running thread can enter and that leaves by itself. Tells the
// address and thread sanitizers about the change of stacks, without which they report nonsense.
#pragma once

#include <ucontext.h>

#include <cstddef>

namespace lockstep::simt {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Prepares to run `entry` from its beginning at the next enter(). `entry` must end in leave().
  /// What was on the stack is abandoned: no destructor runs.
  void start(void (*entry)());
  /// Runs until the fiber leaves. Called by the thread that started it.
  void enter();
  /// Called within the fiber: returns to whoever entered; returns from here at the next enter().
  void leave();

 private:
  static void first_entry(unsigned low, unsigned high);

  std::byte* stack_;
  void (*entry_)() = nullptr;
  ucontext_t self_{};
  ucontext_t caller_{};
  void* self_shadow_ = nullptr;  // the sanitizers' notes
  void* caller_shadow_ = nullptr;
  const void* caller_stack_ = nullptr;
  size_t caller_stack_bytes_ = 0;
};

}  // namespace lockstep::simt

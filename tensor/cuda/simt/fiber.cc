#include "lockstep/tensor/cuda/simt/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace lockstep::simt {
namespace {

constexpr size_t kStackBytes =
    256 * 1024;  // touched pages alone cost memory; the sanitizers' frames are large

}  // namespace

Fiber::Fiber()
    : stack_(static_cast<std::byte*>(mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0))) {
  if (stack_ == MAP_FAILED) throw std::bad_alloc();
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  if (self_shadow_ != nullptr) __tsan_destroy_fiber(self_shadow_);
#endif
  munmap(stack_, kStackBytes);
}

void Fiber::start(void (*entry)()) {
  entry_ = entry;
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack_, kStackBytes);  // frames abandoned there
  self_shadow_ = nullptr;
#endif
#if defined(__SANITIZE_THREAD__)
  if (self_shadow_ != nullptr) __tsan_destroy_fiber(self_shadow_);
  self_shadow_ = __tsan_create_fiber(0);
#endif
  getcontext(&self_);
  self_.uc_stack.ss_sp = stack_;
  self_.uc_stack.ss_size = kStackBytes;
  self_.uc_link = nullptr;
  // makecontext passes ints alone.
  const auto address = reinterpret_cast<uintptr_t>(this);
  makecontext(&self_, reinterpret_cast<void (*)()>(first_entry), 2, static_cast<unsigned>(address),
              static_cast<unsigned>(address >> 32));
}

void Fiber::first_entry(unsigned low, unsigned high) {
  auto* fiber = reinterpret_cast<Fiber*>(static_cast<uintptr_t>(high) << 32 | low);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &fiber->caller_stack_, &fiber->caller_stack_bytes_);
#endif
  fiber->entry_();
}

void Fiber::enter() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&caller_shadow_, stack_, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  caller_shadow_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(self_shadow_, 0);
#endif
  swapcontext(&caller_, &self_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(caller_shadow_, nullptr, nullptr);
#endif
}

void Fiber::leave() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&self_shadow_, caller_stack_, caller_stack_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(caller_shadow_, 0);
#endif
  swapcontext(&self_, &caller_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(self_shadow_, &caller_stack_, &caller_stack_bytes_);
#endif
}

}  // namespace lockstep::simt

#include "lockstep/tensor/tf32.h"

#include <atomic>

namespace lockstep {
namespace {

std::atomic<bool> allowed{false};

}  // namespace

bool allow_tf32() { return allowed.load(std::memory_order_relaxed); }
void set_allow_tf32(bool allow) { allowed.store(allow, std::memory_order_relaxed); }

}  // namespace lockstep

// Waiting for what another process or thread is about to do.
#pragma once

#include <chrono>
#include <thread>

namespace lockstep::testing {

/// Whether `condition` has come true within `time`; it is asked every few milliseconds.
template <class Condition>
bool eventually(Condition condition,
                std::chrono::milliseconds time = std::chrono::milliseconds(5000)) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace lockstep::testing

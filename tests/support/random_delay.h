// Delays for collectives over threads, different for each rank and operation and the same in each
// run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <thread>

namespace lockstep::testing {

/// Sleeps up to `most` before a rank's operation number `sequence`.
inline std::function<void(int rank, int64_t sequence)> delays_up_to(
    std::chrono::microseconds most) {
  return [most](int rank, int64_t sequence) {
    std::mt19937 random(static_cast<unsigned>(sequence * 64 + rank));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % most.count()));
  };
}

}  // namespace lockstep::testing

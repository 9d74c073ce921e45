// Whether ranks of this machine reach each other, and how fast.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::doctor {

struct Loopback {
  std::string error;   // empty: it worked
  int64_t bytes = 0;   // of each rank's buffer
  double seconds = 0;  // of the fastest of a few all-reduces
};

/// All-reduces between two Gloo ranks of this process over 127.0.0.1. Takes half a second.
Loopback measure_loopback();

}  // namespace lockstep::doctor

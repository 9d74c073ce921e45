// When gradients are averaged: the ideas of the paper one by one, to compare them.
#pragma once

#include <string>

namespace lockstep {

/// The results are the same but for `kLocal`.
enum class DdpMode {
  kLocal,       // not at all: what a step costs without communication
  kNaive,       // one all-reduce for each gradient, after backward
  kBucketed,    // one for each bucket, after backward
  kOverlapped,  // one for each bucket, while backward goes on
};

/// "local", "naive", "bucketed", "overlapped"; throws ArgumentError for other names.
DdpMode parse_ddp_mode(const std::string& name);
const char* name_of(DdpMode mode);

}  // namespace lockstep

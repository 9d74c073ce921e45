#include "lockstep/distributed/reduce/ddp_mode.h"

#include "lockstep/base/error.h"

namespace lockstep {

DdpMode parse_ddp_mode(const std::string& name) {
  for (DdpMode mode :
       {DdpMode::kLocal, DdpMode::kNaive, DdpMode::kBucketed, DdpMode::kOverlapped}) {
    if (name == name_of(mode)) return mode;
  }
  throw ArgumentError(str("ddp mode: wanted local, naive, bucketed or overlapped, got ", name));
}

const char* name_of(DdpMode mode) {
  switch (mode) {
    case DdpMode::kLocal:
      return "local";
    case DdpMode::kNaive:
      return "naive";
    case DdpMode::kBucketed:
      return "bucketed";
    case DdpMode::kOverlapped:
      return "overlapped";
  }
  return "?";
}

}  // namespace lockstep

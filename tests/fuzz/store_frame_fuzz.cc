// The frames of the TCP store: any bytes are parsed without a fault, and what parses encodes to the
// same bytes.

// sources: distributed/comm/store_frame.cc

#include "lockstep/distributed/comm/store_frame.h"

#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::comm;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const StoreFrameLimits limits{.max_key = 64, .max_value = 256};
  while (true) {
    const StoreParse parse = parse_store_frame(bytes, limits);
    if (parse.status != StoreParse::Status::kFrame) break;
    if (parse.consumed == 0 || parse.consumed > bytes.size()) std::abort();
    if (parse.frame.key.size() > limits.max_key) std::abort();
    if (parse.frame.value.size() > limits.max_value) std::abort();
    if (encode_store_frame(parse.frame) != bytes.substr(0, parse.consumed)) std::abort();
    bytes.remove_prefix(parse.consumed);
  }
  return 0;
}

// Shards of packed images: whatever parses can be read whole.

// sources: data/pack.cc io/mapped_file.cc

#include "lockstep/base/error.h"
#include "lockstep/data/pack.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const PackShard shard = parse_pack({data, size}, "fuzz");
    unsigned sum = 0;
    for (uint64_t i = 0; i < shard.images; ++i) {
      if (shard.label(i) >= shard.class_names.size()) std::abort();
      for (const uint8_t byte : shard.image(i)) sum += byte;
    }
    if (sum == 0xffffffff) std::abort();  // the bytes must be read
  } catch (const IoError&) {
  }
  return 0;
}

// The parser of IDX files, plain and gzipped.

// sources: data/idx.cc data/memory_dataset.cc io/file.cc io/gzip.cc
// flags: -lz

#include "lockstep/base/error.h"
#include "lockstep/data/idx.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const lockstep::IdxArray array = lockstep::parse_idx({data, size}, "fuzz", 1 << 24);
    size_t wanted = 1;
    for (int64_t extent : array.dims) wanted *= static_cast<size_t>(extent);
    if (array.values.size() != wanted) std::abort();
  } catch (const lockstep::IoError&) {
  }
  return 0;
}

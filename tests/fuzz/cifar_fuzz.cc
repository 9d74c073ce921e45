// CIFAR's binary files and lists of class names.

// sources: data/cifar.cc data/memory_dataset.cc io/file.cc

#include "lockstep/base/error.h"
#include "lockstep/data/cifar.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  if (size == 0) return 0;
  const std::span<const uint8_t> bytes(data + 1, size - 1);
  try {
    if (data[0] % 3 == 2) {
      if (parse_class_names(bytes, 10, "fuzz").size() != 10) std::abort();
      return 0;
    }
    CifarRecords records;
    append_cifar(bytes, data[0] % 3 == 0 ? CifarKind::k10 : CifarKind::k100, "fuzz", records);
    if (records.pixels.size() != records.labels.size() * 3072) std::abort();
  } catch (const IoError&) {
  }
  return 0;
}

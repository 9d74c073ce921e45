// The parser of safetensors files: the input as a file, and, since a fuzzer seldom hits on a right
// header length, the input up to its first zero byte as the JSON and the rest as the tensors'
// bytes.

// sources: io/safetensors.cc io/safetensors_header.cc io/atomic_file.cc io/file.cc

// sources: base/failpoint.cc base/log.cc tensor/allocator.cc tensor/memory.cc tensor/shape.cc

// sources: tensor/tensor.cc

#include "lockstep/base/error.h"
#include "lockstep/io/safetensors.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void parse(std::span<const std::byte> bytes) {
  try {
    const lockstep::TensorFile file = lockstep::parse_safetensors(bytes, "fuzz");
    size_t total = 0;
    for (const auto& [name, tensor] : file.tensors) {
      total += tensor.nbytes();
      if (!file.at(name).shares_memory(tensor)) std::abort();
    }
    if (total > bytes.size()) std::abort();
  } catch (const lockstep::IoError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parse(std::as_bytes(std::span(data, size)));
  const uint8_t* end = std::find(data, data + size, 0);
  const uint64_t length = static_cast<uint64_t>(end - data);
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file.append(reinterpret_cast<const char*>(data), length);
  if (length < size) file.append(reinterpret_cast<const char*>(end) + 1, size - length - 1);
  parse(std::as_bytes(std::span(file)));
  return 0;
}

// Checkpoints: the input as a file, and, since a fuzzer seldom hits on a right header, the input up
// to its first zero byte as the metadata of a run, up to the next as the header's tensors, and the
// rest as their bytes.

// sources: train/checkpoint.cc train/hook_state.cc io/safetensors.cc io/safetensors_header.cc

// sources: io/atomic_file.cc io/file.cc base/failpoint.cc base/log.cc tensor/allocator.cc

// sources: tensor/memory.cc tensor/shape.cc tensor/tensor.cc distributed/comm/rank_texts.cc

#include "lockstep/base/error.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/train/checkpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

/// Only write_checkpoint(), which nothing here calls, needs it; the real one brings all kernels.
lockstep::Tensor lockstep::ops::to_device(const Tensor& x, Device) { return x; }

namespace {

using namespace lockstep;

size_t bytes_of(const std::vector<NamedTensor>& tensors) {
  size_t total = 0;
  for (const NamedTensor& named : tensors) total += named.tensor.nbytes();
  return total;
}

void parse(std::span<const std::byte> bytes) {
  try {
    Checkpoint checkpoint = parse_checkpoint(bytes, "fuzz");
    if (checkpoint.rng.ndim() != 2 || checkpoint.rng.dim(1) != 2) std::abort();
    if (checkpoint.meter.ndim() != 2 || checkpoint.meter.dim(1) != 3) std::abort();
    const size_t total = bytes_of(checkpoint.model) + bytes_of(checkpoint.optimizer.tensors) +
                         bytes_of(checkpoint.ema) + bytes_of(checkpoint.comm_hook) +
                         checkpoint.rng.nbytes() + checkpoint.meter.nbytes();
    if (total > bytes.size()) std::abort();
    check_traits("fuzz", checkpoint.traits, checkpoint.traits);
    take_averages(checkpoint);
  } catch (const IoError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  parse(std::as_bytes(std::span(data, size)));
  const uint8_t* const end = data + size;
  const uint8_t* const run_end = std::find(data, end, 0);
  const uint8_t* const tensors = std::min(run_end + 1, end);
  const uint8_t* const tensors_end = std::find(tensors, end, 0);
  const nlohmann::json run(std::string(data, run_end));
  const auto replace = nlohmann::json::error_handler_t::replace;
  const std::string header = R"({"__metadata__":{"bucket_plan":"[]","lockstep":)" +
                             run.dump(-1, ' ', false, replace) + "}" +
                             std::string(tensors, tensors_end) + "}";
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += header;
  if (tensors_end != end) file.append(tensors_end + 1, end);
  parse(std::as_bytes(std::span(file)));
  return 0;
}

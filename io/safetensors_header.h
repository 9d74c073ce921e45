// The header of a safetensors file: JSON text <-> entries. Private to io/.
#pragma once

#include "lockstep/io/safetensors.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// Parses and checks a header's JSON. `data_begin` is where the tensors' bytes begin in the file,
/// `data_bytes` how many there are; every one of them must belong to exactly one tensor. `name` is
/// the file's, for messages.
TensorFileHeader parse_safetensors_header(std::string_view json, uint64_t data_begin,
                                          uint64_t data_bytes, const std::string& name);

/// The JSON of entries whose offsets count from the first tensor's first byte. Throws ArgumentError
/// for a text that is not UTF-8.
std::string format_safetensors_header(std::span<const TensorEntry> tensors,
                                      const Metadata& metadata);

}  // namespace lockstep

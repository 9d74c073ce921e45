// Tensor files in the safetensors format (github.com/huggingface/safetensors, "Format"): eight
// bytes of header length, a JSON header, the tensors' bytes without gaps. PyTorch, NumPy and JAX
// read and write it too.
#pragma once

#include "lockstep/tensor/named_tensor.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// The "__metadata__" of a file: free text by key, UTF-8.
using Metadata = std::map<std::string, std::string>;

struct TensorFile {
  std::vector<NamedTensor> tensors;  // in the order of their bytes in the file; names are unique
  Metadata metadata;
  std::string path;

  /// Null when there is no tensor of that name.
  const Tensor* find(const std::string& name) const;
  /// Throws IoError that names the file when there is none.
  const Tensor& at(const std::string& name) const;
};

/// What a header says of one tensor.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t offset = 0;  // of the first byte, from the start of the file
  uint64_t bytes = 0;
};

struct TensorFileHeader {
  std::vector<TensorEntry> tensors;  // by offset
  Metadata metadata;
};

/// Reads a file into host tensors. Element types F32, F64, BF16, I64, I32 and U8. Header length,
/// JSON (depth, duplicate names), element types, shapes, offsets (overlaps, gaps) and the file's
/// size are checked before a tensor is allocated; IoError names the file, what was wanted and what
/// was got.
TensorFile read_safetensors(const std::string& path);

/// The header alone, checked as above.
TensorFileHeader read_safetensors_header(const std::string& path);

/// As read_safetensors, from memory; `name` stands for the path in messages.
TensorFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name);

/// Writes host tensors through an AtomicFile, so `path` holds the old file or the whole new one.
/// Tensors are laid out by falling element size, which aligns each one, and otherwise in the given
/// order: equal inputs give equal files. Throws ArgumentError for duplicate or invalid names,
/// IoError when it cannot be written (the old file stays).
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const Metadata& metadata = {});

}  // namespace lockstep

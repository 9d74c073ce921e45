#include "write_vectors.h"

#include "lockstep/base/error.h"
#include "lockstep/base/str.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/safetensors.h"

#include <cstdint>
#include <cstdio>

namespace lockstep::train_bert {
namespace {

std::string tsv(const Tensor& vectors) {
  const int64_t rows = vectors.dim(0), width = vectors.dim(1);
  const float* value = vectors.data<float>();
  std::string text;
  for (int64_t i = 0; i < rows * width; ++i) {
    char number[32];
    std::snprintf(number, sizeof number, "%.9g", static_cast<double>(value[i]));
    text += number;
    text += (i + 1) % width == 0 ? '\n' : '\t';
  }
  return text;
}

/// NumPy's format 1.0: a header of which the data begins at a multiple of 64 bytes.
std::string npy(const Tensor& vectors) {
  std::string header = str("{'descr': '<f4', 'fortran_order': False, 'shape': (", vectors.dim(0),
                           ", ", vectors.dim(1), "), }");
  constexpr size_t kBefore = 10;  // magic, version, length
  while ((kBefore + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string text = "\x93NUMPY";
  text += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF),
           static_cast<char>(header.size() >> 8)};
  text += header;
  text.append(reinterpret_cast<const char*>(vectors.data<float>()), vectors.nbytes());
  return text;
}

}  // namespace

void check_vector_file(const std::string& path) {
  const bool known = path.empty() || path.ends_with(".tsv") || path.ends_with(".npy") ||
                     path.ends_with(".safetensors");
  check(known, "--output: wanted a name that ends in .tsv, .npy or .safetensors, got ", path);
}

void write_vectors(const std::string& path, const Tensor& vectors) {
  if (path.empty()) {
    const std::string text = tsv(vectors);
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else if (path.ends_with(".safetensors")) {
    write_safetensors(path, std::vector<NamedTensor>{{"embeddings", vectors}}, {});
  } else {
    write_file_atomically(path, path.ends_with(".npy") ? npy(vectors) : tsv(vectors));
  }
}

}  // namespace lockstep::train_bert

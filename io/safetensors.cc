#include "lockstep/io/safetensors.h"

#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file.h"
#include "lockstep/io/safetensors_header.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <set>

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kLengthBytes = 8;
// The limit of the reference implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Where the bytes come from: a file or memory.
struct Source {
  const std::string& name;
  uint64_t size;
  std::function<void(uint64_t offset, void* to, size_t bytes)> read;
};

TensorFileHeader read_header(const Source& source) {
  if (source.size < kLengthBytes) {
    throw IoError(str("read_safetensors: ", source.name, ": wanted at least ", kLengthBytes,
                      " bytes, got ", source.size));
  }
  uint64_t length = 0;
  source.read(0, &length, kLengthBytes);
  const uint64_t most = std::min(kMaxHeaderBytes, source.size - kLengthBytes);
  if (length > most) {
    throw IoError(str("read_safetensors: ", source.name, ": wanted a header of at most ", most,
                      " bytes, got the length ", length,
                      "; the file is cut short or of another format"));
  }
  std::string json(length, '\0');
  source.read(kLengthBytes, json.data(), json.size());
  const uint64_t begin = kLengthBytes + length;
  return parse_safetensors_header(json, begin, source.size - begin, source.name);
}

TensorFile read_all(const Source& source) {
  TensorFileHeader header = read_header(source);
  TensorFile file{.tensors = {}, .metadata = std::move(header.metadata), .path = source.name};
  try {
    file.tensors.reserve(header.tensors.size());
    for (TensorEntry& entry : header.tensors) {
      Tensor tensor = Tensor::empty(entry.shape, entry.dtype);
      if (entry.bytes > 0) source.read(entry.offset, tensor.mutable_raw(), entry.bytes);
      file.tensors.push_back({std::move(entry.name), std::move(tensor)});
    }
  } catch (const std::bad_alloc&) {
    throw IoError(
        str("read_safetensors: ", source.name, ": ", source.size, " bytes do not fit into memory"));
  }
  return file;
}

Source source_of(const InputFile& file) {
  return {file.path(), file.size(),
          [&file](uint64_t offset, void* to, size_t bytes) { file.read(offset, to, bytes); }};
}

}  // namespace

const Tensor* TensorFile::find(const std::string& name) const {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor.tensor;
  }
  return nullptr;
}

const Tensor& TensorFile::at(const std::string& name) const {
  const Tensor* tensor = find(name);
  if (tensor == nullptr) {
    throw IoError(
        str("TensorFile: ", path, " has no tensor \"", name, "\" among its ", tensors.size()));
  }
  return *tensor;
}

TensorFile read_safetensors(const std::string& path) {
  const InputFile file(path);
  return read_all(source_of(file));
}

TensorFileHeader read_safetensors_header(const std::string& path) {
  const InputFile file(path);
  return read_header(source_of(file));
}

TensorFile parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  return read_all({name, bytes.size(), [bytes](uint64_t offset, void* to, size_t count) {
                     if (count > 0) std::memcpy(to, bytes.data() + offset, count);
                   }});
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const Metadata& metadata) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    check(!name.empty() && name != "__metadata__" && names.insert(name).second,
          "write_safetensors: ", path, ": wanted distinct names, got \"", name,
          "\" twice or a reserved one");
    check(tensor.defined() && tensor.device().is_cpu(), "write_safetensors: ", path, ": tensor \"",
          name, "\" is undefined or not on the CPU; copy it there first");
  }
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return size_of(tensors[a].tensor.dtype()) > size_of(tensors[b].tensor.dtype());
  });

  std::vector<TensorEntry> entries;
  uint64_t offset = 0;
  for (size_t i : order) {
    const auto& [name, tensor] = tensors[i];
    entries.push_back({name, tensor.dtype(), tensor.shape(), offset, tensor.nbytes()});
    offset += tensor.nbytes();
  }
  std::string header = format_safetensors_header(entries, metadata);
  // Spaces after the JSON align the first tensor, and with it all of them.
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  check(length <= kMaxHeaderBytes, "write_safetensors: ", path, ": wanted a header of at most ",
        kMaxHeaderBytes, " bytes, got ", length);

  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(header.data(), header.size());
  for (size_t i : order) file.write(tensors[i].tensor.raw(), tensors[i].tensor.nbytes());
  file.commit();
}

}  // namespace lockstep

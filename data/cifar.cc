#include "lockstep/data/cifar.h"

#include "lockstep/base/error.h"
#include "lockstep/data/memory_dataset.h"
#include "lockstep/io/file.h"

#include <filesystem>
#include <utility>

namespace lockstep {
namespace {

constexpr size_t kSide = 32;
constexpr size_t kPlane = kSide * kSide;
constexpr size_t kPixels = 3 * kPlane;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;  // the largest real one has 154 MB
constexpr uint64_t kMaxNamesBytes = 1 << 20;

size_t label_bytes(CifarKind kind) { return kind == CifarKind::k10 ? 1 : 2; }
size_t classes(CifarKind kind) { return kind == CifarKind::k10 ? 10 : 100; }

void check_size(uint64_t bytes, CifarKind kind, const std::string& name) {
  const uint64_t record = label_bytes(kind) + kPixels;
  if (bytes == 0 || bytes % record != 0 || bytes > kMaxFileBytes) {
    throw IoError(str("cifar: ", name, ": wanted records of ", record, " bytes, at least one and ",
                      "at most ", kMaxFileBytes, " bytes in all, got ", bytes,
                      " bytes; the file is cut short or not CIFAR's binary version"));
  }
}

std::vector<std::string> files(CifarKind kind, Split split) {
  if (kind == CifarKind::k100) return {split == Split::kTrain ? "train.bin" : "test.bin"};
  if (split == Split::kTest) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin"};
}

// Of the training images, with pixels in [0, 1].
std::vector<Normalisation> normalisation(CifarKind kind) {
  if (kind == CifarKind::k10) {
    return {{.mean = 0.4914f, .deviation = 0.2470f},
            {.mean = 0.4822f, .deviation = 0.2435f},
            {.mean = 0.4465f, .deviation = 0.2616f}};
  }
  return {{.mean = 0.5071f, .deviation = 0.2673f},
          {.mean = 0.4865f, .deviation = 0.2564f},
          {.mean = 0.4409f, .deviation = 0.2762f}};
}

}  // namespace

void append_cifar(std::span<const uint8_t> bytes, CifarKind kind, const std::string& name,
                  CifarRecords& to) {
  check_size(bytes.size(), kind, name);
  const size_t labels = label_bytes(kind), record = labels + kPixels;
  for (size_t at = 0; at < bytes.size(); at += record) {
    const uint8_t label = bytes[at + labels - 1];
    if (label >= classes(kind)) {
      throw IoError(str("cifar: ", name, ": wanted labels below ", classes(kind), ", got ",
                        int{label}, " in record ", at / record));
    }
    to.labels.push_back(label);
    const uint8_t* planes = bytes.data() + at + labels;
    for (size_t i = 0; i < kPlane; ++i) {
      for (size_t c = 0; c < 3; ++c) to.pixels.push_back(planes[c * kPlane + i]);
    }
  }
}

std::vector<std::string> parse_class_names(std::span<const uint8_t> text, size_t classes,
                                           const std::string& name) {
  std::vector<std::string> names;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) names.push_back(std::exchange(line, {}));
  };
  for (const uint8_t c : text) {
    if (c == '\n') {
      end_line();
    } else if (c != '\r') {
      line.push_back(static_cast<char>(c));
    }
  }
  end_line();
  if (names.size() != classes) {
    throw IoError(str("cifar: ", name, ": wanted the names of ", classes, " classes, one a line, ",
                      "got ", names.size(), " lines"));
  }
  return names;
}

std::shared_ptr<const Dataset> cifar(CifarKind kind, const std::string& directory, Split split) {
  namespace fs = std::filesystem;
  fs::path folder = directory;
  std::error_code ignored;
  const fs::path inner =
      folder / (kind == CifarKind::k10 ? "cifar-10-batches-bin" : "cifar-100-binary");
  if (fs::is_directory(inner, ignored)) folder = inner;

  CifarRecords records;
  for (const std::string& file : files(kind, split)) {
    const InputFile input((folder / file).string());
    check_size(input.size(), kind, input.path());
    std::vector<uint8_t> bytes(input.size());
    input.read(0, bytes.data(), bytes.size());
    append_cifar(bytes, kind, input.path(), records);
  }
  std::vector<std::string> names;
  const fs::path list =
      folder / (kind == CifarKind::k10 ? "batches.meta.txt" : "fine_label_names.txt");
  if (fs::exists(list, ignored)) {
    names =
        parse_class_names(read_file(list.string(), kMaxNamesBytes), classes(kind), list.string());
  }
  return std::make_shared<MemoryDataset>(
      folder.string(), std::move(records.pixels), std::move(records.labels),
      ImageFormat{.height = kSide, .width = kSide, .channels = 3},
      static_cast<int64_t>(classes(kind)), normalisation(kind), std::move(names));
}

}  // namespace lockstep

#include "lockstep/data/pack.h"

#include "lockstep/base/error.h"
#include "lockstep/data/pack_format.h"
#include "lockstep/io/little_endian.h"
#include "lockstep/io/mapped_file.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace lockstep {
namespace {

std::vector<std::string> read_names(std::span<const uint8_t> bytes, uint32_t count,
                                    const std::string& name) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t length = bytes.size() >= 4 ? load_u32(bytes, 0) : 0;
    if (bytes.size() < 4 || bytes.size() - 4 < length) {
      throw IoError(str("pack: ", name, ": wanted ", count, " class names, got ", i));
    }
    const auto text = bytes.subspan(4, length);
    names.emplace_back(text.begin(), text.end());
    bytes = bytes.subspan(4 + length);
  }
  if (!bytes.empty()) {
    throw IoError(str("pack: ", name, ": ", bytes.size(), " bytes behind the last class name"));
  }
  return names;
}

}  // namespace

std::span<const uint8_t> PackShard::image(uint64_t i) const {
  const uint64_t entry = i * kPackEntryBytes;
  return bytes.subspan(load_u64(index, entry), load_u32(index, entry + 8));
}

uint32_t PackShard::label(uint64_t i) const { return load_u32(index, i * kPackEntryBytes + 12); }

PackShard parse_pack(std::span<const uint8_t> bytes, const std::string& name) {
  if (bytes.size() < kPackHeaderBytes ||
      !std::equal(kPackMagic.begin(), kPackMagic.end(), bytes.begin())) {
    throw IoError(str("pack: ", name, ": wanted a shard made by 'lockstep pack', got a file of ",
                      bytes.size(), " bytes that is none"));
  }
  if (const uint32_t version = load_u32(bytes, 8); version != kPackVersion) {
    throw IoError(str("pack: ", name, ": wanted version ", kPackVersion, ", got ", version));
  }
  const uint64_t size = load_u64(bytes, 48);
  if (size != bytes.size()) {
    throw IoError(str("pack: ", name, ": wanted ", size, " bytes, got ", bytes.size(),
                      "; the file is cut short or was added to"));
  }
  PackShard shard;
  shard.number = load_u32(bytes, 12);
  shard.last = load_u32(bytes, 16) != 0;
  shard.images = load_u64(bytes, 24);
  shard.bytes = bytes;
  const uint32_t classes = load_u32(bytes, 20);
  const uint64_t index = load_u64(bytes, 32), names = load_u64(bytes, 40);
  if (index < kPackHeaderBytes || names < index || names > size || shard.images == 0 ||
      shard.images != (names - index) / kPackEntryBytes || (names - index) % kPackEntryBytes != 0) {
    throw IoError(str("pack: ", name, ": wanted an index of ", shard.images,
                      " images before the class names, got bytes ", index, " to ", names, " of ",
                      size));
  }
  shard.class_names = read_names(bytes.subspan(names), classes, name);
  shard.index = bytes.subspan(index, names - index);
  for (uint64_t i = 0; i < shard.images; ++i) {
    const uint64_t entry = i * kPackEntryBytes;
    const uint64_t begin = load_u64(shard.index, entry), count = load_u32(shard.index, entry + 8);
    if (begin < kPackHeaderBytes || begin > index || count > index - begin ||
        shard.label(i) >= classes) {
      throw IoError(str("pack: ", name, ": image ", i, " has ", count, " bytes at ", begin,
                        " and label ", shard.label(i), "; wanted them before byte ", index,
                        " and a label below ", classes));
    }
  }
  return shard;
}

std::string pack_file(Split split, uint32_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%s-%05u.pack", split == Split::kTrain ? "train" : "val",
                number);
  return text;
}

namespace {

class PackedImages final : public ImageSource {
 public:
  PackedImages(const std::string& directory, Split split) {
    for (bool last = false; !last;) {
      const auto number = static_cast<uint32_t>(shards_.size());
      const auto path = std::filesystem::path(directory) / pack_file(split, number);
      std::error_code ignored;
      if (!std::filesystem::exists(path, ignored)) {
        throw IoError(str("pack: ", path.string(), " is missing",
                          number == 0 ? "; 'lockstep pack' makes it from a folder of images"
                                      : "; the shard before it is not the last one"));
      }
      files_.push_back(std::make_unique<MappedFile>(path.string()));
      PackShard shard = parse_pack(files_.back()->bytes(), path.string());
      if (shard.number != number ||
          (number > 0 && shard.class_names != shards_.front().class_names)) {
        throw IoError(str("pack: ", path.string(), ": belongs to another data set, or is shard ",
                          shard.number, " under another name"));
      }
      last = shard.last;
      first_.push_back(size_);
      size_ += static_cast<int64_t>(shard.images);
      shards_.push_back(std::move(shard));
    }
  }

  int64_t size() const override { return size_; }
  const std::vector<std::string>& class_names() const override {
    return shards_.front().class_names;
  }
  int64_t label(int64_t index) const override {
    const size_t s = shard_of(index);
    return shards_[s].label(static_cast<uint64_t>(index - first_[s]));
  }
  std::string name(int64_t index) const override {
    const size_t s = shard_of(index);
    return str(files_[s]->path(), ", image ", index - first_[s]);
  }
  std::span<const uint8_t> bytes(int64_t index, std::vector<uint8_t>&) const override {
    const size_t s = shard_of(index);
    return shards_[s].image(static_cast<uint64_t>(index - first_[s]));
  }

 private:
  size_t shard_of(int64_t index) const {
    const auto after = std::upper_bound(first_.begin(), first_.end(), index);
    return static_cast<size_t>(after - first_.begin()) - 1;
  }

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<PackShard> shards_;
  std::vector<int64_t> first_;  // the index of each shard's first image
  int64_t size_ = 0;
};

}  // namespace

std::shared_ptr<const ImageSource> packed_images(const std::string& directory, Split split) {
  return std::make_shared<PackedImages>(directory, split);
}

}  // namespace lockstep

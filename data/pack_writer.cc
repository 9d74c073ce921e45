#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/data/pack.h"
#include "lockstep/data/pack_format.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/little_endian.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace lockstep {
namespace {

/// The shard being filled.
class Shard {
 public:
  uint64_t bytes() const { return images_.size(); }
  bool empty() const { return entries_.empty(); }

  void add(std::span<const uint8_t> image, int64_t label) {
    entries_.push_back({kPackHeaderBytes + images_.size(), image.size(), label});
    images_.insert(images_.end(), image.begin(), image.end());
  }

  /// Writes it and starts the next one; the file's size.
  int64_t write(const std::string& path, uint32_t number, bool last,
                const std::vector<std::string>& classes) {
    std::vector<uint8_t> tail;
    for (const Entry& entry : entries_) {
      append_little_endian(tail, entry.begin, 8);
      append_little_endian(tail, entry.bytes, 4);
      append_little_endian(tail, static_cast<uint64_t>(entry.label), 4);
    }
    const uint64_t index = kPackHeaderBytes + images_.size(), names = index + tail.size();
    for (const std::string& name : classes) {
      append_little_endian(tail, name.size(), 4);
      tail.insert(tail.end(), name.begin(), name.end());
    }
    const uint64_t size = index + tail.size();
    std::vector<uint8_t> header(kPackMagic.begin(), kPackMagic.end());
    append_little_endian(header, kPackVersion, 4);
    append_little_endian(header, number, 4);
    append_little_endian(header, last ? 1 : 0, 4);
    append_little_endian(header, classes.size(), 4);
    append_little_endian(header, entries_.size(), 8);
    append_little_endian(header, index, 8);
    append_little_endian(header, names, 8);
    append_little_endian(header, size, 8);
    append_little_endian(header, 0, 8);
    AtomicFile file(path);
    file.write(header.data(), header.size());
    file.write(images_.data(), images_.size());
    file.write(tail.data(), tail.size());
    file.commit();
    images_.clear();
    entries_.clear();
    return static_cast<int64_t>(size);
  }

 private:
  struct Entry {
    uint64_t begin, bytes;
    int64_t label;
  };
  std::vector<uint8_t> images_;
  std::vector<Entry> entries_;
};

/// `image` with its shorter side reduced to `side`; smaller ones as they are.
Image reduced(const Image& image, int64_t side) {
  const int64_t shorter = std::min(image.height, image.width);
  if (shorter <= side) return image;
  Image small;
  small.height = side * image.height / shorter;
  small.width = side * image.width / shorter;
  small.pixels.resize(static_cast<size_t>(small.height * small.width * 3));
  resize_bilinear(image, {.height = image.height, .width = image.width}, small.height, small.width,
                  {.height = small.height, .width = small.width}, small.pixels.data());
  return small;
}

}  // namespace

PackResult pack_images(const ImageSource& source, const std::string& directory, Split split,
                       const PackOptions& options) {
  check(options.shard_bytes >= 1 && options.resize >= 0,
        "pack_images: wanted shards of at least 1 byte and a size of at least 0, got ",
        options.shard_bytes, " and ", options.resize);
  PackResult result;
  Shard shard;
  const auto write = [&](bool last) {
    const auto path = std::filesystem::path(directory) / pack_file(split, result.shards);
    result.bytes += shard.write(path.string(), result.shards, last, source.class_names());
    ++result.shards;
  };
  std::vector<uint8_t> scratch, rgb;
  Image image;
  for (int64_t i = 0; i < source.size(); ++i) {
    std::span<const uint8_t> bytes = source.bytes(i, scratch);
    try {
      decode_image(bytes, source.name(i), options.decode, image);
    } catch (const BadImage& error) {
      if (options.bad_images == BadImages::kFatal) {
        throw BadImage(str(error.what(), " (--bad-images skip goes on without it)"));
      }
      log_warning(str("skipped: ", error.what()));
      ++result.skipped;
      continue;
    }
    if (options.resize > 0) {
      rgb = encode_rgb(reduced(image, options.resize));
      bytes = rgb;
    }
    if (!shard.empty() && shard.bytes() + bytes.size() > static_cast<uint64_t>(options.shard_bytes))
      write(false);
    shard.add(bytes, source.label(i));
    ++result.images;
  }
  if (shard.empty()) {
    throw IoError(str("pack_images: none of the ", source.size(), " images can be decoded"));
  }
  write(true);
  return result;
}

}  // namespace lockstep

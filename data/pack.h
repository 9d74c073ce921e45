// Packed images: shards <split>-00000.pack, <split>-00001.pack, ... for the splits train and val.
// A shard is meant to be mapped; all integers are little-endian:
//
//   offset  bytes
//        0      8  "LSPACK\r\n"
//        8      4  version, 1
//       12      4  number of the shard, from 0
//       16      4  1 in the last shard of the split, else 0
//       20      4  classes C
//       24      8  images N, at least 1
//       32      8  where the index begins: behind the last image
//       40      8  where the class names begin: behind the index
//       48      8  bytes of the file
//       56      8  0
//       64         the images one after another, each as encoded as it came (JPEG, PNG) or as
//                  encode_rgb() has it
//                  the index, N times: 8 bytes offset of the image, 4 its bytes, 4 its label
//                  the class names, C times: 4 bytes length, the name
//
// All shards of a data set have the same class names.
#pragma once

#include "lockstep/data/datasets.h"
#include "lockstep/data/image_source.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A shard in memory; `bytes` outlive it.
struct PackShard {
  uint32_t number = 0;
  bool last = false;
  std::vector<std::string> class_names;
  uint64_t images = 0;
  std::span<const uint8_t> bytes, index;

  std::span<const uint8_t> image(uint64_t i) const;
  uint32_t label(uint64_t i) const;
};

/// Checks everything that the header and the index say against `bytes`. IoError names `name` when
/// it is no such file, of another version, cut short or malformed.
PackShard parse_pack(std::span<const uint8_t> bytes, const std::string& name);

/// The file's name in its folder: "train-00003.pack".
std::string pack_file(Split split, uint32_t number);

/// The images of `split` in `directory`, mapped. Throws IoError as parse_pack(), and when a shard
/// is missing or belongs to another data set.
std::shared_ptr<const ImageSource> packed_images(const std::string& directory, Split split);

struct PackOptions {
  int64_t shard_bytes = int64_t{256} << 20;  // at most, but for a larger image; in memory meanwhile
  /// 0: images are kept as they are. Else as RGB bytes, the shorter side reduced to this.
  int64_t resize = 0;
  DecodeOptions decode = {};
  BadImages bad_images = BadImages::kFatal;
};

struct PackResult {
  int64_t images = 0, skipped = 0, bytes = 0;
  uint32_t shards = 0;
};

/// Writes the images of `source` into `directory`, which exists, as the shards of `split`. Each is
/// decoded once, so that bad ones are found here; with BadImages::kSkip they are named in a warning
/// and left out. Shards appear whole or not at all; without the last one they are refused when
/// read. Throws IoError.
PackResult pack_images(const ImageSource& source, const std::string& directory, Split split,
                       const PackOptions& options);

}  // namespace lockstep

// Where encoded images come from: a folder of files, or packed shards.
#pragma once

#include "lockstep/data/dataset.h"
#include "lockstep/data/image/decode.h"
#include "lockstep/data/image/view.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Images with labels, numbered from 0. Immutable, so safe from any thread.
class ImageSource {
 public:
  virtual ~ImageSource() = default;

  virtual int64_t size() const = 0;
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual int64_t label(int64_t index) const = 0;
  /// For messages: the file's path, for instance.
  virtual std::string name(int64_t index) const = 0;
  /// The encoded image, in `scratch` or in memory of the source's own. Throws IoError.
  virtual std::span<const uint8_t> bytes(int64_t index, std::vector<uint8_t>& scratch) const = 0;
};

/// What becomes of an image that cannot be decoded.
enum class BadImages {
  kFatal,  // BadImage is thrown
  kSkip,   // it is named in a warning, once, and the next good one of the source takes its place,
           // with its label: the same one in every epoch, on every rank, whoever meets it first,
           // so batches keep their number and size
};

struct ImageDatasetOptions {
  ImageViewOptions view = {};
  DecodeOptions decode = {};
  BadImages bad_images = BadImages::kFatal;
};

/// Decodes on demand, in the thread that asks. sample() is ImageView::training(), get() is
/// ImageView::evaluation(). Files that cannot be read at all (permissions, a failing disk) are
/// IoErrors, skipped never; an IoError too when no image of the source is good.
std::shared_ptr<const Dataset> image_dataset(std::shared_ptr<const ImageSource> source,
                                             const ImageDatasetOptions& options);

}  // namespace lockstep

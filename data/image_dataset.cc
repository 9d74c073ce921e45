#include "lockstep/base/log.h"
#include "lockstep/data/image_source.h"

#include <mutex>
#include <set>
#include <utility>

namespace lockstep {
namespace {

/// The images that turned out to be bad.
class BadList {
 public:
  bool has(int64_t index) const {
    const std::lock_guard lock(mutex_);
    return bad_.contains(index);
  }
  /// Whether it is new.
  bool add(int64_t index) {
    const std::lock_guard lock(mutex_);
    return bad_.insert(index).second;
  }
  std::vector<int64_t> all() const {
    const std::lock_guard lock(mutex_);
    return {bad_.begin(), bad_.end()};
  }

 private:
  mutable std::mutex mutex_;
  std::set<int64_t> bad_;
};

class ImageDataset final : public Dataset {
 public:
  ImageDataset(std::shared_ptr<const ImageSource> source, const ImageDatasetOptions& options)
      : source_(std::move(source)), options_(options), view_(options.view) {}

  int64_t size() const override { return source_->size(); }
  int64_t classes() const override { return static_cast<int64_t>(source_->class_names().size()); }
  std::vector<std::string> class_names() const override { return source_->class_names(); }
  std::vector<int64_t> skipped() const override { return bad_.all(); }
  ImageFormat format() const override {
    const int64_t size = view_.options().size;
    return {.height = size, .width = size, .channels = 3, .black = view_.black()};
  }

  int64_t get(int64_t index, std::span<float> image) const override {
    check_call(index, image);
    thread_local Image decoded;
    const int64_t used = load(index, decoded);
    view_.evaluation(decoded, image);
    return source_->label(used);
  }

  int64_t sample(int64_t epoch, int64_t index, std::span<float> image) const override {
    check_call(index, image);
    thread_local Image decoded;
    const int64_t used = load(index, decoded);
    view_.training(decoded, epoch, index, image);
    return source_->label(used);
  }

 private:
  void check_call(int64_t index, std::span<const float> image) const {
    check(0 <= index && index < size() && image.size() == static_cast<size_t>(format().numel()),
          "image_dataset: wanted a sample below ", size(), " and room for ", format().numel(),
          " values, got ", index, " and ", image.size());
  }

  /// The first good image from `index` on, past the end from the beginning; its index.
  int64_t load(int64_t index, Image& image) const {
    thread_local std::vector<uint8_t> scratch;
    for (int64_t i = 0; i < size(); ++i) {
      const int64_t candidate = (index + i) % size();
      if (bad_.has(candidate)) continue;
      try {
        decode_image(source_->bytes(candidate, scratch), source_->name(candidate), options_.decode,
                     image);
        return candidate;
      } catch (const BadImage& error) {
        if (options_.bad_images == BadImages::kFatal) {
          throw BadImage(str(error.what(), " (--bad-images skip goes on without it)"));
        }
        if (bad_.add(candidate)) log_warning(str("skipped: ", error.what()));
      }
    }
    throw IoError(str("image_dataset: none of the ", size(), " images can be decoded; the last is ",
                      source_->name(index)));
  }

  const std::shared_ptr<const ImageSource> source_;
  const ImageDatasetOptions options_;
  const ImageView view_;
  mutable BadList bad_;
};

}  // namespace

std::shared_ptr<const Dataset> image_dataset(std::shared_ptr<const ImageSource> source,
                                             const ImageDatasetOptions& options) {
  check(source != nullptr && source->size() >= 1, "image_dataset: wanted at least one image");
  check(options.decode.max_pixels >= 1, "image_dataset: wanted a limit of at least one pixel, got ",
        options.decode.max_pixels);
  return std::make_shared<ImageDataset>(std::move(source), options);
}

}  // namespace lockstep

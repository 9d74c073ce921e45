// The command-line flags that say what a trainer of images reads, and how.
#pragma once

#include "lockstep/data/image/view.h"
#include "lockstep/data/loader.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/train/checkpoint.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

struct DataFlags {
  std::string dataset = "digits";
  std::string data_dir;
  bool augment = false;
  int workers = 1;
  // Of folder and packed:
  std::optional<int64_t> image_size;      // not given: 224
  std::optional<int64_t> resize_size;     // not given: image_size * 256 / 224
  std::optional<double> val_fraction;     // not given: the folder has a train/
  std::optional<double> least_crop_area;  // not given: 0.08
  std::vector<double> color_jitter;       // up to four: brightness, contrast, saturation, hue
  std::vector<double> mean, deviation;    // three each; not given: ImageNet's
  std::string bad_images = "fatal";
  int64_t max_image_pixels = 100'000'000;
};

void add_data_flags(CLI::App& app, DataFlags& flags);

/// What is wrong with the flags together, for a usage error; empty: nothing.
std::string wrong_data_flags(const DataFlags& flags);

struct TrainingData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

/// Both splits. `seed` is of the augmentation; `warn`: what is odd, such as a class without images,
/// goes to the log. Throws IoError, among others when the splits' images differ in size or their
/// classes in number.
TrainingData open_data(const DataFlags& flags, uint64_t seed, bool warn);

/// The test split alone, for evaluation. Throws IoError.
std::shared_ptr<const Dataset> open_test_data(const DataFlags& flags);

/// How a test image of folder and packed is prepared.
ImageViewOptions evaluation_view(const DataFlags& flags);

/// What the loader does to a training image; null: nothing.
ImageTransform data_transform(const DataFlags& flags, uint64_t seed);

/// What a resumed run must have in common with the one that it goes on with.
std::vector<RunTrait> data_traits(const DataFlags& flags);

/// The reverse, for a checkpoint's evaluation: takes over what is about test images and is not
/// given in `flags` already (where an empty dataset is none). `name` is the checkpoint's, for
/// messages. Throws IoError for values that are malformed.
void take_data_traits(const std::vector<RunTrait>& traits, const std::string& name,
                      DataFlags& flags);

/// Collective, at the end of a run: how many images any rank has skipped, in words; empty: none, or
/// --bad-images is not skip. The same on every rank.
std::string skipped_images(const DataFlags& flags, const TrainingData& data, ProcessGroup& group);

}  // namespace lockstep

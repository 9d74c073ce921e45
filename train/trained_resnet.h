// A ResNet that has been trained, from its file: a checkpoint of train_resnet, or weights in
// torchvision's format.
#pragma once

#include "lockstep/models/resnet.h"
#include "lockstep/train/checkpoint.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

struct TrainedResNet {
  std::string path;
  std::string name;  // "resnet18"
  std::unique_ptr<ResNet> model;
  int64_t classes = 0;
  int64_t in_channels = 0;
  bool averaged = false;                 // its weights are a run's moving averages
  std::vector<RunTrait> traits;          // of a checkpoint; none of other files
  std::vector<std::string> class_names;  // likewise; empty when the data set had none

  /// What the checkpoint notes of its run; null when it notes nothing of the kind.
  const std::string* trait(const std::string& name) const;
};

struct TrainedOptions {
  std::string name = {};  // of the model; empty: the checkpoint's, and other files want one
  /// The averages of a run with --ema-decay, as its own evaluations have them.
  bool averages = true;
};

/// Reads the header first, so that what is neither is refused before it takes memory. Throws
/// IoError for such files, and ArgumentError when the weights are no `name`'s.
TrainedResNet load_trained_resnet(const std::string& path, const TrainedOptions& options = {});

}  // namespace lockstep

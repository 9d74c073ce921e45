// A residual network by its name, and images that need no files.
#pragma once

#include "lockstep/data/loader.h"
#include "lockstep/distributed/ddp_options.h"
#include "lockstep/models/resnet.h"

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

struct ImageTask {
  std::string model = "resnet8";  // one of resnet_names()
  int64_t image_size = 16;  // pixels, the longer side; up to 64 give the stem for small images
  int64_t channels = 3;
  int64_t classes = 10;
  double layer_drop = 0;
  uint64_t seed = 1;
};

/// The same weights for the same task.
std::unique_ptr<ResNet> make_model(const ImageTask& task);

/// `samples` square images with values in [-1, 1) and labels, the same for the same task and
/// number.
Batch synthetic_batch(const ImageTask& task, int64_t samples, uint64_t number);

/// `ddp` for a model with layer drop: blocks that all ranks skip leave whole buckets out. Without
/// layer drop as it is.
DdpOptions with_layer_drop(DdpOptions ddp, double layer_drop);

}  // namespace lockstep

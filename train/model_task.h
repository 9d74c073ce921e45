// A model by its name with data that need no files, images or texts as the model wants them: what
// `lockstep verify` trains and `lockstep bench` measures.
#pragma once

#include "lockstep/train/image_task.h"
#include "lockstep/train/replica.h"
#include "lockstep/train/text_task.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct ModelTask {
  std::string model = "resnet8";  // one of model_task_names()
  uint64_t seed = 1;
  // One of them counts, with the model and the seed above.
  ImageTask images = {};
  TextTask texts = {};

  bool is_text() const;
};

/// resnet_names() and text_model_names().
std::vector<std::string> model_task_names();

/// The same weights for the same task. The loss is the mean cross-entropy over a batch's images or
/// masked tokens. Throws ArgumentError for a name that is none.
LossModel make_loss_model(const ModelTask& task);

/// `samples` images or sequences, the same for the same task and number.
Batch synthetic_batch(const ModelTask& task, int64_t samples, uint64_t number);

/// "images of 32 x 32", "sequences of 128".
std::string describe_samples(const ModelTask& task);

}  // namespace lockstep

#include "lockstep/train/model_task.h"

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/base/str.h"

#include <memory>
#include <utility>

namespace lockstep {
namespace {

/// The part of it that counts, complete.
template <class Part>
Part part_of(const ModelTask& task, Part part) {
  part.model = task.model;
  part.seed = task.seed;
  return part;
}

}  // namespace

bool ModelTask::is_text() const { return model.starts_with("bert-"); }

std::vector<std::string> model_task_names() {
  std::vector<std::string> names = resnet_names();
  for (std::string& name : text_model_names()) names.push_back(std::move(name));
  return names;
}

LossModel make_loss_model(const ModelTask& task) {
  if (task.is_text()) return make_loss_model(part_of(task, task.texts));
  return loss_model(std::shared_ptr<ResNet>(make_model(part_of(task, task.images))),
                    [](ResNet& net, const Batch& batch) {
                      return cross_entropy(net.forward(Variable(batch.inputs)), batch.targets);
                    });
}

Batch synthetic_batch(const ModelTask& task, int64_t samples, uint64_t number) {
  return task.is_text() ? synthetic_batch(part_of(task, task.texts), samples, number)
                        : synthetic_batch(part_of(task, task.images), samples, number);
}

std::string describe_samples(const ModelTask& task) {
  const int64_t size = task.images.image_size;
  return task.is_text() ? str("sequences of ", task.texts.length)
                        : str("images of ", size, " x ", size);
}

}  // namespace lockstep

#include "lockstep/nn/sequential.h"

namespace lockstep {

void Sequential::add(std::unique_ptr<Layer> layer) {
  check(layer != nullptr, "Sequential::add: the layer is null");
  register_module(std::to_string(layers_.size()), *layer);
  layers_.push_back(std::move(layer));
}

Variable Sequential::forward(const Variable& x) {
  Variable y = x;
  for (auto& layer : layers_) y = layer->forward(y);
  return y;
}

}  // namespace lockstep

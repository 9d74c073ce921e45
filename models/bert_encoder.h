// The layers of BERT's encoder, one after the other. Private to models/.
#pragma once

#include "lockstep/models/bert_layer.h"

#include <memory>
#include <vector>

namespace lockstep {

/// Its parts are named "0", "1", ...
class BertEncoder final : public Module {
 public:
  BertEncoder(const BertConfig& config, Generator& rng) {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      layers_.push_back(std::make_unique<BertLayer>(config, rng));
      register_module(std::to_string(i), *layers_.back());
    }
  }
  Variable forward(Variable x, const Tensor& padding) {
    for (const auto& layer : layers_) x = layer->forward(x, padding);
    return x;
  }

 private:
  std::vector<std::unique_ptr<BertLayer>> layers_;
};

}  // namespace lockstep

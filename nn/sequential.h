// Layers one after the other.
#pragma once

#include "lockstep/nn/module.h"

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Owns its layers; they are named "0", "1", ... in the order in which they were added.
class Sequential final : public Layer {
 public:
  /// Makes a layer at the end: body.add<Conv2d>(Conv2dSpec{.in_channels = 3, .out_channels = 8},
  /// rng).
  template <std::derived_from<Layer> L, class... Args>
  L& add(Args&&... args) {
    auto layer = std::make_unique<L>(std::forward<Args>(args)...);
    L& added = *layer;
    add(std::move(layer));
    return added;
  }
  void add(std::unique_ptr<Layer> layer);

  size_t size() const { return layers_.size(); }
  Layer& operator[](size_t i) { return *layers_.at(i); }

  Variable forward(const Variable& x) override;

 private:
  std::vector<std::unique_ptr<Layer>> layers_;
};

}  // namespace lockstep

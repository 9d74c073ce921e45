// Ema: an exponential moving average of a model's weights, which often tests better than the
// weights themselves (Polyak and Juditsky, 1992; Tarvainen and Valpola, 2017).
//
//   Ema ema(model.named_parameters(), {.decay = 0.999});
//   ... optimizer.step(); ema.update(); ...
//   {
//     const EmaWeights averaged(ema);  // the model has the averages while this lives
//     evaluate(model);
//   }
//
// average = decay * average + (1 - decay) * weight, the first update copying, as PyTorch's
// AveragedModel with get_ema_multi_avg_fn does it; one pass over memory for each run of neighbours.
// Buffers are not averaged: the model evaluates with those it has, which is what AveragedModel's
// default, copying them, comes to (batch statistics are a moving average already).
//
// Averages have the parameters' dtype; in bf16, 1 - decay below about 1/256 is lost in rounding.
// Every rank of a data-parallel model computes the same bits from the same weights.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/optim/fused_state.h"
#include "lockstep/tensor/named_tensor.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct EmaOptions {
  double decay = 0.999;  // in [0, 1)
  /// With n updates before this one, the decay is at most 1 - (1 + n / warmup_gamma)^-warmup_power:
  /// the average then forgets the first weights sooner. timm's ModelEmaV3 has the same formula and
  /// the same defaults.
  bool warmup = false;
  double warmup_gamma = 1;
  double warmup_power = 2.0 / 3;
};

class Ema {
 public:
  /// Throws ArgumentError for wrong options, two parameters of one name.
  Ema(std::vector<NamedParameter> parameters, const EmaOptions& options);
  Ema(const Ema&) = delete;
  Ema& operator=(const Ema&) = delete;

  /// Takes the weights of now into the average. Throws Error while they are swapped.
  void update();
  int64_t updates() const { return updates_.data<int64_t>()[0]; }
  /// The decay that the next update will take; 0 for the first.
  double next_decay() const;
  size_t passes_of_last_update() const { return passes_; }

  /// "average.<name>" of each parameter and "updates": the memory itself, to be written out or
  /// copied before the next update.
  std::vector<NamedTensor> state();
  /// Takes over what state() gave, bit for bit. Throws ArgumentError when a name is missing or
  /// unexpected, or a shape or dtype differs; then nothing was changed.
  void load_state(std::span<const NamedTensor> state);

 private:
  friend class EmaWeights;
  void swap();

  std::vector<std::string> names_;
  FusedState averages_;
  EmaOptions options_;
  Tensor updates_;  // i64 [], on the CPU
  size_t passes_ = 0;
  bool swapped_ = false;
};

/// While one lives, the parameters hold the averages; the weights come back, bit for bit, with its
/// end. Before the first update there is no average, and the weights stay. One at a time (Error).
class [[nodiscard]] EmaWeights {
 public:
  explicit EmaWeights(Ema& ema);
  ~EmaWeights();
  EmaWeights(const EmaWeights&) = delete;
  EmaWeights& operator=(const EmaWeights&) = delete;

 private:
  Ema& ema_;
};

}  // namespace lockstep

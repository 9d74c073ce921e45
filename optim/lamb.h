// LAMB: Adam's direction, at a rate that each parameter's own size sets (You et al., "Large Batch
// Optimization for Deep Learning: Training BERT in 76 minutes", ICLR 2020, algorithm 2).
//
// The variant: both moments corrected for their bias; the direction r includes the weight decay;
// the step is lr * |x| / |r| * r with L2 norms over the whole parameter (phi is the identity), and
// the ratio is 1 where a norm is 0. Parameters without weight decay (biases and norms, mostly) are
// left out of the adaptation, as in the authors' code and most others, and so get Adam's step,
// unless `always_adapt` asks for it. No clipping is built in; clip_grad_norm goes before.
//
// Adapted parameters take two passes over memory each, one for moments and norms, one to move the
// parameter; the others one for each run of neighbours. State and counts are as in adam.h.
#pragma once

#include "lockstep/optim/optimizer.h"

#include <vector>

namespace lockstep {

struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.01;
  bool always_adapt = false;  // also without weight decay
};

using LambGroup = ParameterGroup<LambOptions>;

class Lamb final : public Optimizer {
 public:
  /// Throws as Adam does.
  Lamb(std::vector<NamedParameter> parameters, const LambOptions& options);
  explicit Lamb(std::vector<LambGroup> groups);

 private:
  void update() override;

  std::vector<LambOptions> options_;
};

}  // namespace lockstep

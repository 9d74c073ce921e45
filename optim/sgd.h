// Stochastic gradient descent with momentum (Sutskever et al., "On the importance of initialization
// and momentum in deep learning", ICML 2013, in the form that PyTorch gives it: the rate multiplies
// the velocity, it is not part of it).
#pragma once

#include "lockstep/optim/optimizer.h"

#include <vector>

namespace lockstep {

struct SgdOptions {
  double lr = 0.01;
  double momentum = 0;
  double dampening = 0;  // of what enters the velocity, but for a parameter's first gradient
  double weight_decay = 0;
  bool nesterov = false;  // wants a momentum above 0 and no dampening
};

using SgdGroup = ParameterGroup<SgdOptions>;

class Sgd final : public Optimizer {
 public:
  /// One group. Throws ArgumentError for a negative option, or nesterov without momentum or
  /// with dampening.
  Sgd(std::vector<NamedParameter> parameters, const SgdOptions& options);
  explicit Sgd(std::vector<SgdGroup> groups);

 private:
  void update() override;

  std::vector<SgdOptions> options_;  // of each group; the rate is the base's
};

}  // namespace lockstep

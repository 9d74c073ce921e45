// Adam (Kingma and Ba, ICLR 2015) and AdamW (Loshchilov and Hutter, "Decoupled Weight Decay
// Regularization", ICLR 2019), as PyTorch defines them, without AMSGrad. One pass over memory for
// each run of neighbours (fused_state.h).
//
// The correction of the bias depends on how many updates a parameter has seen, so each has a count
// of its own, as in PyTorch: a parameter without a gradient in a step is not moved, its moments do
// not decay and its count stays. The state of a parameter is "exp_avg", "exp_avg_sq" and "step".
#pragma once

#include "lockstep/optim/optimizer.h"

#include <vector>

namespace lockstep {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // times the parameter, added to the gradient
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  // times lr and the parameter, taken from the parameter
};

using AdamGroup = ParameterGroup<AdamOptions>;
using AdamWGroup = ParameterGroup<AdamWOptions>;

class Adam final : public Optimizer {
 public:
  /// Throws ArgumentError for betas outside [0, 1), an eps that is not above 0 in f32 (moments of
  /// zero would give NaN), a negative weight_decay.
  Adam(std::vector<NamedParameter> parameters, const AdamOptions& options);
  explicit Adam(std::vector<AdamGroup> groups);

 private:
  void update() override;

  std::vector<AdamOptions> options_;  // of each group; the rate is the base's
};

class AdamW final : public Optimizer {
 public:
  /// Throws as Adam does.
  AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options);
  explicit AdamW(std::vector<AdamWGroup> groups);

 private:
  void update() override;

  std::vector<AdamWOptions> options_;
};

}  // namespace lockstep

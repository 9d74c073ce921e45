// The command-line flags of the optimizer, its learning-rate schedule and the averaged weights,
// which all trainers have.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/optim/ema.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/train/checkpoint.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

/// A trainer may set other defaults before add_optimizer_flags().
struct OptimizerFlags {
  std::string optimizer = "sgd";
  std::optional<double> lr;  // not given: lr_in_force(), and so on
  std::optional<double> weight_decay;
  std::optional<double> eps;
  double momentum = 0.9;
  double dampening = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  bool no_bias_decay = false;
  std::optional<double> clip_grad_norm;

  std::string lr_scheduler = "cosine";
  int64_t lr_step_size = 30;  // epochs
  double lr_gamma = 0.1;
  double lr_power = 1;
  double lr_pct_start = 0.3;
  double lr_pct_decay = 0.2;
  int64_t warmup_steps = 20;

  std::optional<double> ema_decay;
  bool ema_warmup = false;

  double lr_in_force() const;
  double weight_decay_in_force() const;
  double eps_in_force() const;
};

void add_optimizer_flags(CLI::App& app, OptimizerFlags& flags);

/// After parsing: what is wrong with the flags together, such as a momentum for Adam, for a usage
/// error; null: nothing.
const char* wrong_optimizer_flags(const CLI::App& app, const OptimizerFlags& flags);

/// Puts the values that follow from the optimizer into `settings` (settings_of()), where they were
/// not given.
void complete_settings(const OptimizerFlags& flags,
                       std::vector<std::pair<std::string, std::string>>& settings);

std::unique_ptr<Optimizer> make_optimizer(const OptimizerFlags& flags,
                                          std::vector<NamedParameter> parameters);
/// Null: none.
std::unique_ptr<Ema> make_ema(const OptimizerFlags& flags, std::vector<NamedParameter> parameters);

/// For a run of `steps` optimizer steps, `steps_per_epoch` of them in an epoch.
Schedule make_schedule(const OptimizerFlags& flags, int64_t steps, int64_t steps_per_epoch);

/// What a checkpoint's optimizer state depends on. Rates and schedules may change on purpose.
std::vector<RunTrait> optimizer_traits(const OptimizerFlags& flags);

}  // namespace lockstep

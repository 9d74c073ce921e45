#include "lockstep/train/optimizer_flags.h"

#include "lockstep/base/str.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/parameter_groups.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

// Beyond this, sums such as epochs times steps would overflow.
constexpr double kMost = 1e15;

/// One group, or two of which the second has no weight decay.
template <class T, class Options>
std::unique_ptr<Optimizer> make(const OptimizerFlags& flags, std::vector<NamedParameter> parameters,
                                Options options) {
  options.lr = flags.lr_in_force();
  options.weight_decay = flags.weight_decay_in_force();
  if constexpr (requires { options.beta1; }) {
    options.beta1 = flags.beta1;
    options.beta2 = flags.beta2;
    options.eps = flags.eps_in_force();
  }
  if (!flags.no_bias_decay) return std::make_unique<T>(std::move(parameters), options);
  auto [decayed, others] = split_parameters(std::move(parameters), has_weight_decay);
  std::vector<ParameterGroup<Options>> groups;
  groups.push_back({std::move(decayed), options});
  options.weight_decay = 0;
  groups.push_back({std::move(others), options});
  return std::make_unique<T>(std::move(groups));
}

}  // namespace

double OptimizerFlags::lr_in_force() const { return lr.value_or(optimizer == "sgd" ? 0.1 : 1e-3); }

double OptimizerFlags::weight_decay_in_force() const {
  return weight_decay.value_or(optimizer == "sgd" ? 5e-4 : optimizer == "adam" ? 0 : 0.01);
}

double OptimizerFlags::eps_in_force() const {
  return eps.value_or(optimizer == "lamb" ? 1e-6 : 1e-8);
}

void add_optimizer_flags(CLI::App& app, OptimizerFlags& flags) {
  const FlagCheck positive = within(1, kMost, "a number from 1 to 10^15");
  const FlagCheck count = within(0, kMost, "a number from 0 to 10^15");
  const FlagCheck amount = within(0, kMost, "a value from 0 to 10^15");
  const FlagCheck above_zero = within(1e-30, kMost, "a value from 10^-30 to 10^15");
  const FlagCheck fraction = within(0, 1, "a value from 0 to 1");
  const FlagCheck rate = within(0, 0.9999999, "a value from 0 to 0.9999999");
  app.add_option("--optimizer", flags.optimizer, "sgd, adam, adamw or lamb")
      ->check(CLI::IsMember({"sgd", "adam", "adamw", "lamb"}));
  app.add_option("--lr", flags.lr, "Learning rate; not given: 0.1 for sgd, 0.001 for the others")
      ->check(amount);
  app.add_option("--weight-decay", flags.weight_decay,
                 "Weight decay; not given: 0.0005 for sgd, 0 for adam, 0.01 for adamw and lamb")
      ->check(amount);
  app.add_flag("--no-bias-decay,!--bias-decay", flags.no_bias_decay,
               "No weight decay on biases and the parameters of norms; lamb does not adapt these");
  app.add_option("--momentum", flags.momentum, "Momentum of sgd")->check(amount);
  app.add_option("--dampening", flags.dampening, "Dampening of sgd's momentum")->check(amount);
  app.add_flag("--nesterov", flags.nesterov, "Nesterov's momentum, for sgd");
  app.add_option("--beta1", flags.beta1, "Decay of the mean gradient; not of sgd")->check(rate);
  app.add_option("--beta2", flags.beta2, "Decay of the mean squared gradient; not of sgd")
      ->check(rate);
  app.add_option("--eps", flags.eps,
                 "Added to the root of the mean squared gradient; not given: 1e-6 for lamb, 1e-8 "
                 "for adam and adamw")
      ->check(above_zero);
  app.add_option("--clip-grad-norm", flags.clip_grad_norm,
                 "Most the norm of all gradients together may be; no value: any")
      ->check(amount);

  const std::vector<std::string> schedules = {
      "constant", "step", "cosine", "linear", "polynomial", "one-cycle", "warmup-stable-decay"};
  app.add_option("--lr-scheduler", flags.lr_scheduler,
                 "constant, step, cosine, linear, polynomial, one-cycle or warmup-stable-decay: "
                 "constant, with a line to 0 at the end")
      ->check(CLI::IsMember(schedules));
  app.add_option("--lr-step-size", flags.lr_step_size,
                 "Epochs between two drops of the step schedule")
      ->check(positive);
  app.add_option("--lr-gamma", flags.lr_gamma, "Factor of each drop")->check(amount);
  app.add_option("--lr-power", flags.lr_power, "Power of the polynomial schedule")
      ->check(above_zero);
  app.add_option("--lr-pct-start", flags.lr_pct_start,
                 "Part of the run in which the rate of one-cycle rises, from a 25th")
      ->check(fraction);
  app.add_option("--lr-pct-decay", flags.lr_pct_decay,
                 "Part of the run in which the rate of warmup-stable-decay falls")
      ->check(fraction);
  app.add_option("--warmup-steps", flags.warmup_steps,
                 "Optimizer steps of linear warm-up, before all schedules but one-cycle")
      ->check(count);

  app.add_option("--ema-decay", flags.ema_decay,
                 "Evaluate with a moving average of the weights that decays by this in each step; "
                 "not given: with the weights")
      ->check(rate);
  app.add_flag("--ema-warmup", flags.ema_warmup, "Let the average decay faster at first");
}

const char* wrong_optimizer_flags(const CLI::App& app, const OptimizerFlags& flags) {
  const auto given = [&](const char* name) { return app.count(name) > 0; };
  if (flags.optimizer != "sgd" &&
      (given("--momentum") || given("--dampening") || given("--nesterov"))) {
    return "--momentum, --dampening and --nesterov are for --optimizer sgd; the others have "
           "--beta1 "
           "and --beta2";
  }
  if (flags.optimizer == "sgd" && (given("--beta1") || given("--beta2") || given("--eps"))) {
    return "--beta1, --beta2 and --eps are for --optimizer adam, adamw and lamb; sgd has "
           "--momentum";
  }
  if (flags.nesterov && flags.momentum == 0) return "--nesterov wants a --momentum above 0";
  if (flags.nesterov && flags.dampening != 0) return "--nesterov wants no --dampening";
  if (flags.lr_scheduler == "one-cycle" && given("--warmup-steps")) {
    return "--lr-scheduler one-cycle warms up by itself: --lr-pct-start instead of --warmup-steps";
  }
  if (given("--lr-pct-start") && flags.lr_scheduler != "one-cycle") {
    return "--lr-pct-start is for --lr-scheduler one-cycle";
  }
  if (given("--lr-pct-decay") && flags.lr_scheduler != "warmup-stable-decay") {
    return "--lr-pct-decay is for --lr-scheduler warmup-stable-decay";
  }
  if (given("--lr-power") && flags.lr_scheduler != "polynomial") {
    return "--lr-power is for --lr-scheduler polynomial";
  }
  if (flags.ema_warmup && !flags.ema_decay) return "--ema-warmup wants an --ema-decay";
  return nullptr;
}

void complete_settings(const OptimizerFlags& flags,
                       std::vector<std::pair<std::string, std::string>>& settings) {
  for (auto& [name, value] : settings) {
    if (!value.empty()) continue;
    if (name == "lr") value = str(flags.lr_in_force());
    if (name == "weight-decay") value = str(flags.weight_decay_in_force());
    if (name == "eps" && flags.optimizer != "sgd") value = str(flags.eps_in_force());
  }
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerFlags& flags,
                                          std::vector<NamedParameter> parameters) {
  if (flags.optimizer == "adam") return make<Adam>(flags, std::move(parameters), AdamOptions{});
  if (flags.optimizer == "adamw") return make<AdamW>(flags, std::move(parameters), AdamWOptions{});
  if (flags.optimizer == "lamb") return make<Lamb>(flags, std::move(parameters), LambOptions{});
  return make<Sgd>(
      flags, std::move(parameters),
      SgdOptions{
          .momentum = flags.momentum, .dampening = flags.dampening, .nesterov = flags.nesterov});
}

std::unique_ptr<Ema> make_ema(const OptimizerFlags& flags, std::vector<NamedParameter> parameters) {
  if (!flags.ema_decay) return nullptr;
  return std::make_unique<Ema>(std::move(parameters),
                               EmaOptions{.decay = *flags.ema_decay, .warmup = flags.ema_warmup});
}

Schedule make_schedule(const OptimizerFlags& flags, int64_t steps, int64_t steps_per_epoch) {
  if (flags.lr_scheduler == "one-cycle") {
    return one_cycle_schedule({.steps = steps, .pct_start = flags.lr_pct_start});
  }
  const int64_t warmup = std::min(flags.warmup_steps, steps);
  const int64_t rest = std::max<int64_t>(steps - warmup, 1);
  Schedule main = constant_schedule();
  if (flags.lr_scheduler == "step") {
    main = step_schedule(flags.lr_step_size * steps_per_epoch, flags.lr_gamma);
  }
  if (flags.lr_scheduler == "cosine") main = cosine_schedule(rest);
  if (flags.lr_scheduler == "linear") main = polynomial_schedule(rest);
  if (flags.lr_scheduler == "polynomial") main = polynomial_schedule(rest, flags.lr_power);
  if (flags.lr_scheduler == "warmup-stable-decay") {
    const double share = flags.lr_pct_decay * static_cast<double>(steps);
    const int64_t decay = std::clamp<int64_t>(std::llround(share), 1, rest);
    main = chain_schedules(constant_schedule(), rest - decay, polynomial_schedule(decay));
  }
  if (warmup == 0) return main;
  // The first step counts: it takes 1 / warmup of the rate, not 0.
  return chain_schedules(warmup_schedule(warmup, 1.0 / static_cast<double>(warmup)), warmup, main);
}

std::vector<RunTrait> optimizer_traits(const OptimizerFlags& flags) {
  const auto on = [](bool value) { return value ? "on" : "off"; };
  std::vector<RunTrait> traits = {{"--optimizer", flags.optimizer}};
  if (flags.optimizer == "sgd") {
    traits.push_back({"--momentum", str(flags.momentum)});
    traits.push_back({"--dampening", str(flags.dampening)});
    traits.push_back({"--nesterov", on(flags.nesterov)});
  } else {
    traits.push_back({"--beta1", str(flags.beta1)});
    traits.push_back({"--beta2", str(flags.beta2)});
    traits.push_back({"--eps", str(flags.eps_in_force())});
  }
  traits.push_back({"--weight-decay", str(flags.weight_decay_in_force())});
  traits.push_back({"--no-bias-decay", on(flags.no_bias_decay)});
  traits.push_back({"--ema-decay", flags.ema_decay ? str(*flags.ema_decay) : "none"});
  traits.push_back({"--ema-warmup", on(flags.ema_warmup)});
  return traits;
}

}  // namespace lockstep

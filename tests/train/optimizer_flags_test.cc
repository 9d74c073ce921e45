#include "lockstep/train/optimizer_flags.h"

#include "lockstep/optim/adam.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/train/command_line.h"

#include <doctest/doctest.h>
#include <CLI/CLI.hpp>

#include <algorithm>

namespace lockstep {
namespace {

struct Program {
  CLI::App app{"A program.", "program"};
  OptimizerFlags flags;

  Program() {
    add_optimizer_flags(app, flags);
    add_config_option(app);
    for (CLI::Option* option : app.get_options()) {
      if (option->get_items_expected_max() > 0 && option->get_single_name() != "help") {
        option->capture_default_str();
      }
    }
  }
  std::optional<int> parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return parse_command_line(
        app, normalize_flags(static_cast<int>(arguments.size()), arguments.data()));
  }
  std::string setting(const std::string& wanted) const {
    auto settings = settings_of(app);
    complete_settings(flags, settings);
    for (const auto& [name, value] : settings) {
      if (name == wanted) return value;
    }
    return "no such setting";
  }
};

OptimizerFlags parsed(const std::vector<const char*>& arguments) {
  Program program;
  REQUIRE(!program.parse(arguments));
  REQUIRE(wrong_optimizer_flags(program.app, program.flags) == nullptr);
  return program.flags;
}

std::vector<NamedParameter> parameters() {
  const auto ones = [](const Shape& shape) {
    return Variable(ops::full(shape, 1, DType::kF64), true);
  };
  return {{"weight", ones({2, 2})}, {"bias", ones({2})}};
}

/// weight and bias after one step with gradients of 0.5.
std::vector<double> after_step(const std::vector<const char*>& arguments) {
  auto list = parameters();
  const auto optimizer = make_optimizer(parsed(arguments), list);
  for (NamedParameter& entry : list) {
    entry.parameter.bind_grad(ops::full(entry.parameter.shape(), 0.5, DType::kF64));
    entry.parameter.set_grad_defined(true);
  }
  optimizer->step();
  return {list[0].parameter.data().to_vector<double>()[0],
          list[1].parameter.data().to_vector<double>()[0]};
}

using doctest::Approx;

TEST_CASE("every optimizer, with its own defaults") {
  const auto sgd = after_step({});
  CHECK(sgd[0] == Approx(1 - 0.1 * (0.5 + 5e-4)).epsilon(1e-9));
  const auto adam = after_step({"--optimizer", "adam"});
  CHECK(adam[0] == Approx(1 - 1e-3).epsilon(1e-9));
  const auto adamw = after_step({"--optimizer", "adamw"});
  CHECK(adamw[0] == Approx((1 - 1e-5) - 1e-3).epsilon(1e-9));
  const auto lamb = after_step({"--optimizer", "lamb"});
  CHECK(lamb[0] == Approx(1 - 1e-3).epsilon(1e-9));  // equal elements: r / |r| = x / |x|
  CHECK(dynamic_cast<Sgd*>(make_optimizer(parsed({}), parameters()).get()) != nullptr);
  CHECK(dynamic_cast<Lamb*>(make_optimizer(parsed({"--optimizer", "lamb"}), parameters()).get()) !=
        nullptr);
}

TEST_CASE("what is given is in force") {
  const auto adamw = after_step({"--optimizer", "adamw", "--lr", "0.1", "--weight-decay", "0.2",
                                 "--eps", "0.5", "--beta1", "0", "--beta2", "0"});
  CHECK(adamw[0] == Approx(0.98 - 0.1 * 0.5));
  CHECK(adamw[1] == adamw[0]);
  const auto parted =
      after_step({"--optimizer", "adamw", "--lr", "0.1", "--weight-decay", "0.2", "--eps", "0.5",
                  "--beta1", "0", "--beta2", "0", "--no-bias-decay"});
  CHECK(parted[0] == adamw[0]);
  CHECK(parted[1] == Approx(1 - 0.1 * 0.5));
  const auto sgd = after_step({"--lr", "1", "--momentum", "0.5", "--nesterov", "--no-bias-decay"});
  CHECK(sgd[1] == Approx(1 - 0.75));
}

TEST_CASE("flags of another optimizer or schedule are refused") {
  const auto why = [](const std::vector<const char*>& arguments) {
    Program program;
    REQUIRE(!program.parse(arguments));
    const char* wrong = wrong_optimizer_flags(program.app, program.flags);
    return std::string(wrong == nullptr ? "" : wrong);
  };
  CHECK(why({"--optimizer", "adam", "--momentum", "0.9"}).find("--beta1") != std::string::npos);
  CHECK(why({"--optimizer", "lamb", "--nesterov"}).find("--nesterov") != std::string::npos);
  CHECK(why({"--eps", "1e-3"}).find("--eps") != std::string::npos);
  CHECK(why({"--nesterov", "--momentum", "0"}).find("--momentum") != std::string::npos);
  CHECK(why({"--nesterov", "--dampening", "0.1"}).find("--dampening") != std::string::npos);
  CHECK(why({"--lr-scheduler", "one-cycle", "--warmup-steps", "3"}).find("--lr-pct-start") !=
        std::string::npos);
  CHECK(why({"--lr-pct-start", "0.2"}).find("one-cycle") != std::string::npos);
  CHECK(why({"--lr-pct-decay", "0.2"}).find("warmup-stable-decay") != std::string::npos);
  CHECK(why({"--lr-power", "2"}).find("polynomial") != std::string::npos);
  CHECK(why({"--ema-warmup"}).find("--ema-decay") != std::string::npos);
}

TEST_CASE("schedules") {
  const auto schedule = [](std::vector<const char*> arguments) {
    return make_schedule(parsed(arguments), 40, 10);
  };
  const Schedule linear = schedule({"--lr-scheduler", "linear", "--warmup-steps", "8"});
  CHECK(linear(0) == Approx(1.0 / 8));
  CHECK(linear(8) == 1);
  CHECK(linear(24) == Approx(0.5));
  const Schedule power =
      schedule({"--lr-scheduler", "polynomial", "--lr-power", "2", "--warmup-steps", "0"});
  CHECK(power(20) == Approx(0.25));
  const Schedule cycle = schedule({"--lr-scheduler", "one-cycle", "--lr-pct-start", "0.5"});
  CHECK(cycle(0) == Approx(0.04));
  CHECK(cycle(19) == Approx(1));
  const Schedule steps = schedule({"--lr-scheduler", "step", "--lr-step-size", "1", "--lr-gamma",
                                   "0.5", "--warmup-steps", "5"});
  CHECK(steps(15) == Approx(0.5));
  const Schedule stable = schedule(
      {"--lr-scheduler", "warmup-stable-decay", "--lr-pct-decay", "0.25", "--warmup-steps", "4"});
  CHECK(stable(0) == Approx(0.25));
  CHECK(stable(4) == 1);
  CHECK(stable(30) == 1);
  CHECK(stable(35) == Approx(0.5));
  CHECK(stable(40) == 0);
  // All of the rest may decay, and the warm-up goes before it.
  const Schedule down = schedule(
      {"--lr-scheduler", "warmup-stable-decay", "--lr-pct-decay", "1", "--warmup-steps", "20"});
  CHECK(down(20) == 1);
  CHECK(down(30) == Approx(0.5));
}

TEST_CASE("averaged weights") {
  CHECK(make_ema(parsed({}), parameters()) == nullptr);
  const auto ema = make_ema(parsed({"--ema-decay", "0.9", "--ema-warmup"}), parameters());
  ema->update();
  CHECK(ema->next_decay() == Approx(0.370039));
}

TEST_CASE("values in force are settings, and what state depends on are traits") {
  Program program;
  REQUIRE(!program.parse({"--optimizer", "lamb"}));
  CHECK(program.setting("lr") == "0.001");
  CHECK(program.setting("weight-decay") == "0.01");
  CHECK(program.setting("eps") == "1e-06");
  CHECK(program.setting("beta1") == "0.9");
  const auto differ = [](const std::vector<const char*>& a, const std::vector<const char*>& b) {
    return optimizer_traits(parsed(a)) != optimizer_traits(parsed(b));
  };
  CHECK(differ({}, {"--optimizer", "adam"}));
  CHECK(differ({"--optimizer", "adam"}, {"--optimizer", "adamw"}));
  CHECK(differ({"--optimizer", "adam"}, {"--optimizer", "adam", "--beta2", "0.9"}));
  CHECK(differ({"--optimizer", "adam"}, {"--optimizer", "adam", "--eps", "1e-3"}));
  CHECK(differ({}, {"--dampening", "0.1"}));
  CHECK(differ({}, {"--no-bias-decay"}));
  CHECK(differ({}, {"--ema-decay", "0.9"}));
  CHECK_FALSE(differ({}, {"--lr", "3", "--lr-scheduler", "one-cycle"}));
}

}  // namespace
}  // namespace lockstep

// Five steps of each optimizer against torch.optim, under a schedule, with parameters that are
// unused in some of them (tests/golden/make_optimizers.py).
#include "lockstep/io/safetensors.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tests/optim/parameters.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>

namespace lockstep {
namespace {

using Parameters = std::vector<NamedParameter>;
using Make = std::function<std::unique_ptr<Optimizer>(Parameters first, Parameters second)>;

/// The optimizer over two groups, with the options of each.
template <class T, class Options>
Make two_groups(Options first_options, Options second_options) {
  return [=](Parameters first, Parameters second) {
    std::vector<ParameterGroup<Options>> groups;
    groups.push_back({std::move(first), first_options});
    groups.push_back({std::move(second), second_options});
    return std::make_unique<T>(std::move(groups));
  };
}

struct Case {
  const char* name;
  Make make;
};

std::vector<Case> cases() {
  return {
      {"adam",
       two_groups<Adam, AdamOptions>({.lr = 0.01, .weight_decay = 0.1},
                                     {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-4})},
      {"adamw", two_groups<AdamW, AdamWOptions>(
                    {.lr = 0.01, .weight_decay = 0.1},
                    {.lr = 0.02, .beta1 = 0.5, .beta2 = 0.9, .weight_decay = 0})},
      {"lamb",
       two_groups<Lamb, LambOptions>({.lr = 0.01, .weight_decay = 0.1},
                                     {.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0})},
      {"lamb_always",
       two_groups<Lamb, LambOptions>({.lr = 0.01, .weight_decay = 0, .always_adapt = true},
                                     {.lr = 0.02, .always_adapt = true})},
      {"sgd_dampening", two_groups<Sgd, SgdOptions>(
                            {.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.01},
                            {.lr = 0.05, .momentum = 0.8, .dampening = 0.25})},
  };
}

TEST_CASE("five steps of two groups equal PyTorch's") {
  const TensorFile golden = read_safetensors("tests/golden/optimizers.safetensors");
  const double lr_factors[] = {1.0, 0.5, 0.75, 0.25, 1.0};
  for (const auto& [case_name, make] : cases()) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      Parameters p;
      for (const char* key : {"a", "b", "c", "d"}) {
        const Tensor before = ops::cast(golden.at(str("before.", key)), dtype);
        p.push_back({key, Variable(ops::clone(before), true)});
      }
      const auto optimizer = make({p[0], p[1]}, {p[2], p[3]});
      for (int step = 0; step < 5; ++step) {
        optimizer->zero_grad();
        for (const auto& [key, parameter] : p) {
          const Tensor* grad = golden.find(str("grad", step, ".", key));
          if (grad != nullptr) testing::set_grad(parameter, ops::cast(*grad, dtype));
        }
        optimizer->set_lr_factor(lr_factors[step]);
        optimizer->step();
        for (const auto& [key, parameter] : p) {
          const std::string name = str(case_name, ".", name_of(dtype), ".after", step, ".", key);
          CAPTURE(name);
          // PyTorch rounds after each operation where the kernel may fuse two, and divides where
          // it multiplies by the reciprocal: a few units of the last place.
          CHECK(testing::relative_difference(parameter.data(), golden.at(name)) <=
                (dtype == DType::kF64 ? 2e-15 : 1e-6));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep

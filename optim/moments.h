// What Adam, AdamW and LAMB have in common.
#pragma once

#include "lockstep/optim/fused_state.h"
#include "lockstep/tensor/ops/optimizer.h"

#include <string>
#include <vector>

namespace lockstep {

/// PyTorch's names of the moments.
inline std::vector<std::string> moment_names() { return {"exp_avg", "exp_avg_sq"}; }

/// Throws ArgumentError for constants with which the moments, or a division by them, fail.
void check_moment_options(const char* optimizer, double beta1, double beta2, double eps,
                          double weight_decay);

/// Options is one of the three optimizers'.
template <class Options>
AdamStep adam_step_of(const Options& o, double lr, const FusedState::Run& run) {
  return {.lr = lr,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .step = run.step};
}

}  // namespace lockstep

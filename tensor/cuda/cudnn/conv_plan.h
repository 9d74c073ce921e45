// cuDNN's plan of a convolution. Compiled only with --config=cuda.
#pragma once

#include "lockstep/tensor/cuda/cudnn/conv_problem.h"
#include "lockstep/tensor/cuda/cudnn/plan.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep::cuda {

/// What Plan::run binds.
enum ConvOperand : int64_t { kConvX = 1, kConvWeight, kConvY };

/// cuDNN's suggestions, best first; empty when it has none, and `why`, if given, then has the
/// reason. f32 and bf16.
std::vector<std::unique_ptr<Plan>> plan_convolution(const ConvProblem& problem,
                                                    const PlanTarget& target,
                                                    const PlanWanted& wanted = {},
                                                    std::string* why = nullptr);

}  // namespace lockstep::cuda

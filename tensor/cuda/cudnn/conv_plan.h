// cuDNN's plan of a convolution. Compiled only with --config=cuda.
#pragma once

#include "lockstep/tensor/cuda/cudnn/conv_problem.h"
#include "lockstep/tensor/cuda/cudnn/plan.h"

#include <memory>
#include <string>

namespace lockstep::cuda {

/// What Plan::run binds.
enum ConvOperand : int64_t { kConvX = 1, kConvWeight, kConvY };

/// Null when cuDNN has none; `why`, if given, then has the reason. f32 and bf16.
std::unique_ptr<Plan> plan_convolution(const ConvProblem& problem, const PlanTarget& target,
                                       std::string* why = nullptr);

}  // namespace lockstep::cuda

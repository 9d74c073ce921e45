// Golden values of ops, as tests/golden/golden.py writes them: result and gradients computed by
// PyTorch.
#pragma once

#include "lockstep/io/safetensors.h"
#include "lockstep/tests/support/gradcheck.h"

#include <string>

namespace lockstep::testing {

/// Empty when fn, called with the inputs of `case_name`, gives its result and, for its gradient of
/// the result, its gradients of the inputs, each within ||a - b||_inf / ||b||_inf <= tolerance;
/// else the first that does not, with the difference. The default is for f32 sums of up to a few
/// thousand terms, each rounded to 6e-8.
std::string check_golden(const TensorFile& file, const std::string& case_name, const Function& fn,
                         double tolerance = 1e-5);

}  // namespace lockstep::testing

// The most likely classes, or tokens, by their probabilities.
#pragma once

#include "lockstep/tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <string>

namespace lockstep {

/// Prints the `top` largest of softmax(logits), f32 of one row on any device, as "   52.10 % name",
/// the first among equals first.
void print_most_likely(const Tensor& logits, int64_t top,
                       const std::function<std::string(int64_t)>& name);

}  // namespace lockstep

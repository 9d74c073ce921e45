// How far two models are apart.
#pragma once

#include "lockstep/autograd/named_parameter.h"

#include <span>
#include <string>

namespace lockstep {

struct Difference {
  double largest = 0;  // infinite where one of them is not a number
  std::string where;   // its parameter
  std::string first;   // the first parameter that differs by more than `allowed`; empty: none
};

/// Of each parameter the largest |a - b| over the largest |b|, or over a thousandth of the whole
/// model's where that is more: a bias in front of a normalisation is rounding and nothing else. The
/// same parameters in the same order, f32 or f64, on the host.
Difference difference(std::span<const NamedParameter> a, std::span<const NamedParameter> b,
                      double allowed = 0);

}  // namespace lockstep

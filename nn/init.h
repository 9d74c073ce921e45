// Initial values of weights: PyTorch's, by the same formulas (torch.nn.init), from Philox numbers.
#pragma once

#include "lockstep/tensor/random.h"
#include "lockstep/tensor/tensor.h"

#include <cstdint>

namespace lockstep::init {

enum class Fan { kIn, kOut };

/// Inputs (or outputs) that one output (input) of the layer is connected to: weight [out, ..., in],
/// whose dimensions in between are the kernel's. For a grouped convolution kOut counts the outputs
/// of all groups, as PyTorch does. Throws ArgumentError below two dimensions.
int64_t fan(const Shape& weight, Fan which);

struct KaimingOptions {
  /// Slope of the leaky relu that follows; 0: relu. PyTorch's default layers pass sqrt(5).
  double negative_slope = 0;
  Fan fan = Fan::kIn;
};

/// He et al., "Delving deep into rectifiers", ICCV 2015: variance 2 / (1 + slope^2) / fan, normal
/// or uniform.
void kaiming_normal(Tensor& weight, Generator& rng, const KaimingOptions& options = {});
void kaiming_uniform(Tensor& weight, Generator& rng, const KaimingOptions& options = {});

/// What PyTorch gives the weight of Linear and Conv2d: kaiming_uniform with slope sqrt(5), that is,
/// uniform up to 1 / sqrt(fan_in) either way.
void default_weight(Tensor& weight, Generator& rng);
/// And their bias: uniform within +- 1 / sqrt(fan_in of `weight`); zeros when that is 0.
void default_bias(Tensor& bias, const Shape& weight, Generator& rng);

/// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks",
/// AISTATS 2010: uniform up to sqrt(6 / (fan_in + fan_out)) either way.
void xavier_uniform(Tensor& weight, Generator& rng);

}  // namespace lockstep::init

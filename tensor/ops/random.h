// Filling with random numbers. The same stream gives the same numbers on every device, up to the
// rounding of the device's logarithm and cosine for normal().
#pragma once

#include "lockstep/tensor/random.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct RandomKernels {
  void (&uniform)(const PhiloxRange& range, double low, double high, Tensor& out);
  void (&normal)(const PhiloxRange& range, double mean, double stddev, Tensor& out);
};

namespace ops {

/// Element i is uniform in [low, high), from number i of the next numel() numbers of the generator;
/// rounding can bring it up to `high` itself. Computed in f32 for every dtype. Floating.
void uniform(Tensor& out, double low, double high, Generator& rng);
/// Independent normal numbers (Box and Muller, 1958): elements 2k and 2k + 1 come from the same two
/// numbers of the generator, which moves on by numel(). Computed in f32 for every dtype. Floating.
void normal(Tensor& out, double mean, double stddev, Generator& rng);

}  // namespace ops
}  // namespace lockstep

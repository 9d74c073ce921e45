#include "lockstep/nn/init.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/random.h"

#include <algorithm>
#include <cmath>

namespace lockstep::init {
namespace {

double kaiming_stddev(const Tensor& weight, const KaimingOptions& options) {
  const double gain = std::sqrt(2 / (1 + options.negative_slope * options.negative_slope));
  return gain /
         std::sqrt(static_cast<double>(std::max<int64_t>(fan(weight.shape(), options.fan), 1)));
}

}  // namespace

int64_t fan(const Shape& weight, Fan which) {
  check(weight.ndim() >= 2, "init::fan: wanted a weight of two dimensions or more, got ", weight);
  const int first = which == Fan::kIn ? 1 : 0;
  return weight.numel(first, first + weight.ndim() - 1);
}

void kaiming_normal(Tensor& weight, Generator& rng, const KaimingOptions& options) {
  ops::normal(weight, 0, kaiming_stddev(weight, options), rng);
}

void kaiming_uniform(Tensor& weight, Generator& rng, const KaimingOptions& options) {
  const double bound = std::sqrt(3.0) * kaiming_stddev(weight, options);
  ops::uniform(weight, -bound, bound, rng);
}

void default_weight(Tensor& weight, Generator& rng) {
  kaiming_uniform(weight, rng, {.negative_slope = std::sqrt(5.0)});
}

void default_bias(Tensor& bias, const Shape& weight, Generator& rng) {
  const int64_t inputs = fan(weight, Fan::kIn);
  const double bound = inputs > 0 ? 1 / std::sqrt(static_cast<double>(inputs)) : 0;
  ops::uniform(bias, -bound, bound, rng);
}

void xavier_uniform(Tensor& weight, Generator& rng) {
  const auto fans =
      static_cast<double>(fan(weight.shape(), Fan::kIn) + fan(weight.shape(), Fan::kOut));
  const double bound = fans > 0 ? std::sqrt(6 / fans) : 0;
  ops::uniform(weight, -bound, bound, rng);
}

}  // namespace lockstep::init

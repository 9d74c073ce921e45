#include "lockstep/tensor/ops/random.h"

#include "lockstep/tensor/backend.h"

namespace lockstep::ops {

void uniform(Tensor& out, double low, double high, Generator& rng) {
  check(low <= high, "uniform: wanted low <= high, got ", low, " and ", high);
  backend(out.device()).random.uniform(rng.take(out.numel()), low, high, out);
}

void normal(Tensor& out, double mean, double stddev, Generator& rng) {
  check(stddev >= 0, "normal: wanted a standard deviation >= 0, got ", stddev);
  backend(out.device()).random.normal(rng.take(out.numel()), mean, stddev, out);
}

}  // namespace lockstep::ops

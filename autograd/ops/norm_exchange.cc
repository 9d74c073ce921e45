#include "lockstep/autograd/ops/norm_exchange.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/norm.h"

#include <algorithm>

namespace lockstep {
namespace {

/// What a rank tells the others, [1 + 2 * channels]: its number of rows, means, biased variances.
Tensor own_moments(const Tensor& x, int64_t rows, Tensor& mean, Tensor& variance) {
  const int64_t channels = mean.numel();
  Tensor mine = Tensor::zeros({1 + 2 * channels}, DType::kF64);
  if (rows == 0) return mine;
  ops::batch_norm_moments(x, mean, variance);
  mine.mutable_data<double>()[0] = static_cast<double>(rows);
  Tensor means = mine.slice(1, 1 + channels);
  Tensor variances = mine.slice(1 + channels, 1 + 2 * channels);
  ops::copy(ops::to_device(mean, Device::cpu()), means);
  ops::copy(ops::to_device(variance, Device::cpu()), variances);
  return mine;
}

}  // namespace

int64_t pooled_moments(const Tensor& x, NormExchange& exchange, Tensor& mean, Tensor& variance) {
  const int64_t channels = mean.numel();
  const int64_t rows = x.numel() / std::max<int64_t>(x.dim(-1), 1);
  const Tensor all = exchange.all_gather(own_moments(x, rows, mean, variance));
  const double* parts = all.data<double>();
  Tensor joined = Tensor::zeros({2, channels}, DType::kF64);
  double* means = joined.mutable_data<double>();
  double* squares = means + channels;  // sums of squared differences from the mean
  double count = 0;
  for (int64_t r = 0; r < all.dim(0); ++r) {
    const double* part = parts + r * (1 + 2 * channels);
    const double n = part[0];
    if (n == 0) continue;
    const double share = n / (count + n);
    for (int64_t c = 0; c < channels; ++c) {
      const double delta = part[1 + c] - means[c];
      means[c] += delta * share;
      squares[c] += part[1 + channels + c] * n + delta * delta * count * share;
    }
    count += n;
  }
  for (int64_t c = 0; c < channels; ++c) squares[c] /= std::max(count, 1.0);
  const auto put = [&](int64_t row, Tensor& out) {
    const Tensor values = joined.slice(row, row + 1).reshape({channels});
    ops::copy(ops::to_device(ops::cast(values, out.dtype()), out.device()), out);
  };
  put(0, mean);
  put(1, variance);
  return static_cast<int64_t>(count);
}

}  // namespace lockstep

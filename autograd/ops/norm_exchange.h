// How batch_norm shares its statistics between ranks, without knowing what a rank is.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// Joins what several ranks know of one batch. Every rank makes the same calls in the same order:
/// one all_gather in each forward in training and one all_reduce in each backward that reaches x,
/// whatever the number of rows that it holds. Blocking; what it throws comes out of batch_norm or
/// of backward.
class NormExchange {
 public:
  virtual ~NormExchange() = default;
  /// [ranks, n]: every rank's `mine` [n] in rank order, the same bits on every rank. f64, on the
  /// host.
  virtual Tensor all_gather(const Tensor& mine) = 0;
  /// In place: the sum over the ranks, the same bits on every rank.
  virtual void all_reduce(Tensor& sums) = 0;

  NormExchange() = default;
  NormExchange(const NormExchange&) = delete;
  NormExchange& operator=(const NormExchange&) = delete;
};

/// Mean and biased variance ([C] each) of the rows of x [..., C] on all ranks, any of which may
/// hold none, and the number of those rows. Each rank's moments are joined in rank order by the
/// parallel form of Chan, Golub and LeVeque ("Algorithms for computing the sample variance", 1983),
/// in f64: nothing cancels when the mean is large beside the deviation, and all ranks get the same
/// bits. Where no rank has a row, mean and variance are zero.
int64_t pooled_moments(const Tensor& x, NormExchange& exchange, Tensor& mean, Tensor& variance);

}  // namespace lockstep

// The batch normalisation layer.
#pragma once

#include "lockstep/autograd/ops/norm.h"
#include "lockstep/nn/module.h"

#include <memory>
#include <utility>

namespace lockstep {

struct BatchNorm2dSpec {
  int64_t channels = 1;
  double eps = 1e-5;
  /// Share of the batch in the running statistics.
  double momentum = 0.1;
};

/// batch_norm of x [..., channels], by the batch's statistics in training and by the running ones
/// in evaluation. Parameters: weight (ones) and bias (zeros); buffers: running_mean (zeros),
/// running_var (ones), all [channels], and num_batches_tracked, an i64 scalar that counts the
/// batches seen in training and stays on the host.
class BatchNorm2d final : public Layer {
 public:
  /// Throws ArgumentError unless channels > 0.
  explicit BatchNorm2d(const BatchNorm2dSpec& spec);
  Variable forward(const Variable& x) override;
  /// relu(batch_norm(x) + residual), fused; `residual` has x's shape or is undefined.
  Variable forward_relu(const Variable& x, const Variable& residual = Variable());
  /// From the next forward in training on, the batch is what all ranks of `exchange` hold together;
  /// null: what this rank holds. The layer shares it. Evaluation exchanges nothing.
  void set_exchange(std::shared_ptr<NormExchange> exchange) { exchange_ = std::move(exchange); }
  bool has_exchange() const { return exchange_ != nullptr; }

  Variable weight;
  Variable bias;

 private:
  /// How the next batch is normalised; in training it is counted.
  BatchNormOptions next_batch();

  BatchNorm2dSpec spec_;
  Tensor running_mean_;
  Tensor running_var_;
  Tensor num_batches_tracked_;
  std::shared_ptr<NormExchange> exchange_;
};

}  // namespace lockstep

#include "lockstep/train/verify/one_process.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

ReplicaOptions alone(const VerifyOptions& options) {
  return {.ddp = {.mode = DdpMode::kLocal},
          .micro_batches = options.micro_batches,
          .clip_grad_norm = options.clip_grad_norm,
          .optimizer = options.optimizer};
}

/// The rows of all, one after the other.
Tensor stacked(const std::vector<Tensor>& parts) {
  const Tensor& first = parts[0];
  std::vector<int64_t> dims;
  for (int i = 0; i < first.ndim(); ++i) dims.push_back(first.dim(i));
  dims[0] = 0;
  for (const Tensor& part : parts) dims[0] += part.dim(0);
  Tensor all = Tensor::empty(Shape(dims.data(), first.ndim()), first.dtype());
  std::byte* to = all.mutable_raw();
  for (const Tensor& part : parts) {
    check(part.nbytes() == first.nbytes() && part.dtype() == first.dtype(),
          "verify: wanted shares of one size, got ", part.shape(), " and ", first.shape());
    std::memcpy(to, part.raw(), part.nbytes());
    to += part.nbytes();
  }
  return all;
}

}  // namespace

OneProcess::OneProcess(const VerifyModel& model, const VerifyBatch& batch,
                       const VerifyOptions& options, int ranks, ShareOrder order)
    : batch_(batch),
      micro_batches_(options.micro_batches),
      ranks_(ranks),
      order_(order),
      alone_(make_single_group()),
      replica_(model(), *alone_, alone(options)) {}

std::vector<int> OneProcess::ranks_in_order() const {
  std::vector<int> ranks(static_cast<size_t>(ranks_));
  std::iota(ranks.begin(), ranks.end(), 0);
  if (order_ == ShareOrder::kReversed) std::reverse(ranks.begin(), ranks.end());
  return ranks;
}

SharesInTurn::SharesInTurn(const VerifyModel& model, const VerifyBatch& batch,
                           const VerifyOptions& options, int ranks, ShareOrder order)
    : OneProcess(model, batch, options, ranks, order),
      broadcast_buffers_(options.ddp.broadcast_buffers),
      buffers_of_(static_cast<size_t>(ranks), buffers()) {}

std::vector<Tensor> SharesInTurn::buffers() {
  std::vector<Tensor> values;
  for (const NamedBuffer& named : replica_.module().named_buffers()) {
    values.push_back(ops::clone(named.buffer));
  }
  return values;
}

void SharesInTurn::put(const std::vector<Tensor>& values) {
  size_t i = 0;
  for (NamedBuffer& named : replica_.module().named_buffers()) ops::copy(values[i++], named.buffer);
}

void SharesInTurn::step(int64_t step) {
  std::vector<Tensor> sums(parameters().size());
  for (const int rank : ranks_in_order()) {
    const auto r = static_cast<size_t>(rank);
    put(buffers_of_[r]);
    replica_.zero_grad();
    for (int64_t m = 0; m < micro_batches_; ++m) {
      replica_.backward(batch_(step, m, rank), /*last=*/true);
    }
    buffers_of_[r] = buffers();
    for (size_t i = 0; i < sums.size(); ++i) {
      std::optional<Tensor> grad = parameters()[i].parameter.grad();
      if (!grad) continue;
      ops::scale(*grad, 1.0 / ranks_);
      if (!sums[i].defined()) {
        sums[i] = ops::clone(*grad);
      } else {
        ops::add_scaled(*grad, 1, sums[i]);
      }
    }
  }
  if (broadcast_buffers_) std::fill(buffers_of_.begin() + 1, buffers_of_.end(), buffers_of_[0]);
  replica_.zero_grad();
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!sums[i].defined()) continue;
    Variable parameter = parameters()[i].parameter;
    Tensor slot = parameter.grad_slot();
    ops::copy(sums[i], slot);
    parameter.set_grad_defined(true);
  }
  replica_.update();
}

void WholeBatch::step(int64_t step) {
  replica_.step([&](int64_t micro) {
    std::vector<Tensor> inputs, targets;
    for (const int rank : ranks_in_order()) {
      Batch share = batch_(step, micro, rank);
      inputs.push_back(std::move(share.inputs));
      targets.push_back(std::move(share.targets));
    }
    return Batch{stacked(inputs), stacked(targets)};
  });
}

}  // namespace lockstep

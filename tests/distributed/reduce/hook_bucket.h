// Buckets for tests of communication hooks, without a reducer.
#pragma once

#include "lockstep/distributed/reduce/grad_bucket.h"
#include "lockstep/tensor/arena.h"
#include "lockstep/tensor/ops/copy.h"

#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing {

/// The gradients as the reducer lays them out: aligned slices of one block, padding zero.
inline GradBucket make_bucket(const std::vector<std::pair<std::string, Tensor>>& grads) {
  const Tensor& first = grads.front().second;
  std::vector<int64_t> numels;
  for (const auto& [name, grad] : grads) numels.push_back(grad.numel());
  const ArenaLayout layout = arena_layout(numels, first.dtype());
  GradBucket bucket;
  bucket.last = true;
  bucket.flat = Tensor::zeros({layout.numel}, first.dtype(), first.device());
  for (size_t i = 0; i < grads.size(); ++i) {
    Tensor slot = arena_view(bucket.flat, layout.offsets[i], grads[i].second.shape());
    ops::copy(grads[i].second, slot);
    bucket.params.push_back({grads[i].first, slot});
  }
  return bucket;
}

/// Collective: throws unless every rank holds the same bits.
inline void require_same_bits(const Tensor& tensor, ProcessGroup& group) {
  Tensor all = Tensor::empty({group.size(), tensor.numel()}, tensor.dtype());
  group.all_gather(all, tensor)->wait();
  for (int r = 0; r < group.size(); ++r) {
    check(std::memcmp(all.slice(r, r + 1).raw(), tensor.raw(), tensor.nbytes()) == 0,
          "the bits of rank ", r, " differ from those of rank ", group.rank());
  }
}

}  // namespace lockstep::testing

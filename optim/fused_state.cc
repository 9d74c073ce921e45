#include "lockstep/optim/fused_state.h"

#include "lockstep/tensor/arena.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

/// Whether `next` begins where an arena puts the slice after `tensor`.
bool follows(const Tensor& next, const Tensor& tensor) {
  const auto stride = static_cast<size_t>(arena_stride(tensor.numel(), tensor.dtype()));
  return next.shares_memory(tensor) && next.dtype() == tensor.dtype() &&
         next.offset_bytes() == tensor.offset_bytes() + stride * size_of(tensor.dtype());
}

}  // namespace

FusedState::FusedState(std::vector<Variable> parameters, size_t count)
    : parameters_(std::move(parameters)), states_(count) {}

void FusedState::follow_parameters() {
  const size_t n = parameters_.size();
  const auto moved = [&](size_t i) { return where_[i] != parameters_[i].data().raw(); };
  bool same = where_.size() == n;
  for (size_t i = 0; same && i < n; ++i) same = !moved(i);
  if (same) return;

  std::vector<const std::byte*> where(n);
  for (size_t i = 0; i < n; ++i) where[i] = parameters_[i].data().raw();
  order_.resize(n);
  std::iota(order_.begin(), order_.end(), size_t{0});
  std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
    const DType x = parameters_[a].dtype(), y = parameters_[b].dtype();
    return x != y ? x < y : std::less<>()(where[a], where[b]);
  });

  for (std::vector<Tensor>& tensors : states_) {
    std::vector<Tensor> laid_out(n);      // takes the others' place once it is whole
    for (size_t first = 0; first < n;) {  // one arena for each dtype
      const Variable& head = parameters_[order_[first]];
      size_t last = first;
      std::vector<int64_t> numels;
      while (last < n && parameters_[order_[last]].dtype() == head.dtype()) {
        numels.push_back(parameters_[order_[last++]].data().numel());
      }
      const ArenaLayout layout = arena_layout(numels, head.dtype());
      const Tensor arena = Tensor::zeros({layout.numel}, head.dtype(), head.device());
      for (size_t k = first; k < last; ++k) {
        const size_t i = order_[k];
        laid_out[i] = arena_view(arena, layout.offsets[k - first], parameters_[i].shape());
        if (!tensors.empty()) ops::copy(tensors[i], laid_out[i]);
      }
      first = last;
    }
    tensors = std::move(laid_out);
  }
  where_ = std::move(where);  // last: when memory runs out before, the next call begins again
}

size_t FusedState::for_each_run(const Pass& pass) {
  follow_parameters();
  std::vector<Tensor> run_states(states_.size());
  size_t calls = 0;
  for (size_t k = 0; k < order_.size();) {
    const size_t first = order_[k++];
    const auto first_grad = parameters_[first].grad();
    if (!first_grad) continue;
    size_t last = first;
    Tensor last_grad = *first_grad;
    for (; k < order_.size(); ++k) {
      const Variable& next = parameters_[order_[k]];
      const auto grad = next.grad();
      if (!grad || !follows(next.data(), parameters_[last].data()) || !follows(*grad, last_grad))
        break;
      last = order_[k];
      last_grad = *grad;
    }
    Tensor param = parameters_[first].data().through(parameters_[last].data());
    for (size_t s = 0; s < states_.size(); ++s) {
      run_states[s] = states_[s][first].through(states_[s][last]);
    }
    pass(param, first_grad->through(last_grad), run_states);
    ++calls;
  }
  return calls;
}

Tensor FusedState::state(size_t index, size_t which) {
  follow_parameters();
  return states_.at(which).at(index);
}

}  // namespace lockstep

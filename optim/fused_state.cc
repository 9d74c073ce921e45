#include "lockstep/optim/fused_state.h"

#include "lockstep/autograd/shadow.h"
#include "lockstep/tensor/arena.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
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

FusedState::FusedState(std::vector<Variable> parameters, size_t count, bool counted)
    : parameters_(std::move(parameters)), states_(count) {
  if (counted) steps_ = Tensor::zeros({static_cast<int64_t>(parameters_.size())}, DType::kI64);
}

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
  shadows_.clear();
  where_ = std::move(where);  // last: when memory runs out before, the next call begins again
}

void FusedState::lay_out_shadows() {
  // As the states, in elements of f32: a run of neighbours there is one here.
  const Device device = parameters_[0].device();
  std::vector<int64_t> numels;
  std::vector<size_t> indices;
  for (size_t i : order_) {
    const Tensor& data = parameters_[i].data();
    if (data.dtype() != DType::kF32 || data.device() != device) continue;
    numels.push_back(data.numel());
    indices.push_back(i);
  }
  const ArenaLayout layout = arena_layout(numels, DType::kF32);
  const Tensor arena = Tensor::zeros({layout.numel}, DType::kBF16, device);
  shadows_.assign(parameters_.size(), Tensor());
  for (size_t k = 0; k < indices.size(); ++k) {
    const size_t i = indices[k];
    shadows_[i] = arena_view(arena, layout.offsets[k], parameters_[i].shape());
  }
}

void FusedState::begin_shadows() {
  in_step_.clear();
  if (std::none_of(parameters_.begin(), parameters_.end(), Shadow::used)) return;
  follow_parameters();
  if (shadows_.empty()) lay_out_shadows();
  for (const Variable& p : parameters_)
    in_step_.push_back(Shadow::fresh(p) ? InStep::kFresh : InStep::kStale);
}

void FusedState::end_shadows() {
  for (size_t i = 0; i < in_step_.size(); ++i) {
    const Variable& p = parameters_[i];
    if (!Shadow::used(p)) continue;
    // One that no pass moved is as it was, though its arena's version is not.
    if (in_step_[i] == InStep::kWritten) Shadow::set(p, shadows_[i]);
    if (in_step_[i] == InStep::kFresh) Shadow::renew(p);
  }
  in_step_.clear();
}

size_t FusedState::visit(const Pass& pass, bool by_grad, bool fuse) {
  follow_parameters();
  std::vector<Tensor> run_states(states_.size());
  int64_t* steps = counted() ? steps_.mutable_data<int64_t>() : nullptr;
  const auto step_of = [&](size_t i) { return steps == nullptr ? 0 : steps[i] + 1; };
  size_t calls = 0;
  for (size_t k = 0; k < order_.size();) {
    const size_t first_k = k++;
    const size_t first = order_[first_k];
    const std::optional<Tensor> first_grad = parameters_[first].grad();
    if (by_grad && !first_grad) continue;
    size_t last = first;
    std::optional<Tensor> last_grad = first_grad;
    for (; fuse && k < order_.size(); ++k) {
      const Variable& next = parameters_[order_[k]];
      if (!follows(next.data(), parameters_[last].data())) break;
      if (step_of(order_[k]) != step_of(first)) break;
      if (by_grad) {
        std::optional<Tensor> grad = next.grad();
        if (!grad || !follows(*grad, *last_grad)) break;
        last_grad = std::move(grad);
      }
      last = order_[k];
    }
    for (size_t s = 0; s < states_.size(); ++s) {
      run_states[s] = states_[s][first].through(states_[s][last]);
    }
    Run run{.param = parameters_[first].data().through(parameters_[last].data()),
            .grad = by_grad ? first_grad->through(*last_grad) : Tensor(),
            .states = run_states,
            .step = step_of(first)};
    const bool shadowed = !in_step_.empty() && shadows_[first].defined();
    if (shadowed) run.shadow = shadows_[first].through(shadows_[last]);
    pass(run);
    for (size_t i = first_k; i < k; ++i) {
      if (steps != nullptr) ++steps[order_[i]];
      if (!in_step_.empty()) in_step_[order_[i]] = shadowed ? InStep::kWritten : InStep::kStale;
    }
    ++calls;
  }
  return calls;
}

Tensor FusedState::steps(size_t index) const {
  const auto i = static_cast<int64_t>(index);
  return steps_.slice(i, i + 1).reshape({});
}

Tensor FusedState::state(size_t index, size_t which) {
  follow_parameters();
  return states_.at(which).at(index);
}

}  // namespace lockstep

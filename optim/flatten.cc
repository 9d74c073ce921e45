#include "lockstep/optim/flatten.h"

#include "lockstep/tensor/arena.h"
#include "lockstep/tensor/ops/copy.h"

#include <functional>

namespace lockstep {
namespace {

/// Calls visit(parameter, its slice of a new zeroed arena) for each and returns the arena.
Tensor for_each_slice(const char* caller, std::span<Variable> parameters,
                      const std::function<void(Variable&, Tensor)>& visit) {
  if (parameters.empty()) return Tensor::zeros({0}, DType::kF32);
  const DType dtype = parameters[0].dtype();
  const Device device = parameters[0].device();
  std::vector<int64_t> numels;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Variable& p = parameters[i];
    check(p.is_leaf() && is_computable(p.dtype()), caller, ": parameter ", i,
          " is not a leaf in f32, f64 or bf16");
    check(p.dtype() == dtype && p.device() == device, caller, ": parameter ", i, " is ",
          name_of(p.dtype()), " on ", to_string(p.device()), ", the first is ", name_of(dtype),
          " on ", to_string(device), "; use one arena for each");
    for (size_t k = 0; k < i; ++k) {
      check(!p.is(parameters[k]), caller, ": parameters ", k, " and ", i, " are the same");
    }
    numels.push_back(p.data().numel());
  }
  const ArenaLayout layout = arena_layout(numels, dtype);
  const Tensor arena = Tensor::zeros({layout.numel}, dtype, device);
  for (size_t i = 0; i < parameters.size(); ++i) {
    visit(parameters[i], arena_view(arena, layout.offsets[i], parameters[i].shape()));
  }
  return arena;
}

}  // namespace

Tensor move_into_arena(std::span<Variable> parameters) {
  return for_each_slice("move_into_arena", parameters, [](Variable& p, Tensor slice) {
    ops::copy(p.data(), slice);
    p.mutable_data() = std::move(slice);
  });
}

Tensor bind_gradients_to_arena(std::span<Variable> parameters) {
  return for_each_slice("bind_gradients_to_arena", parameters,
                        [](Variable& p, Tensor slice) { p.bind_grad(std::move(slice)); });
}

}  // namespace lockstep

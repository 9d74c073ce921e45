#include "lockstep/distributed/reduce/hooks/topk_hook.h"

#include "lockstep/distributed/reduce/hooks/top_k.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace lockstep {
namespace {

constexpr const char* kPrefix = "residual.";

/// residual += grad.
template <class T, class C>
void add(const Tensor& grad, C* residual) {
  const T* g = grad.data<T>();
  for (int64_t i = 0; i < grad.numel(); ++i) residual[i] += static_cast<C>(g[i]);
}

/// Adds `count` pairs to `sum`, which has `numel` elements. The indexes are a peer's.
template <class C>
void scatter_add(const int32_t* indexes, const C* values, int64_t count, C* sum, int64_t numel,
                 const std::string& name) {
  for (int64_t j = 0; j < count; ++j) {
    if (indexes[j] < 0 || indexes[j] >= numel) {
      throw CommError(str("comm hook topk: a peer sent element ", indexes[j], " of ", name,
                          ", which has ", numel));
    }
    sum[indexes[j]] += values[j];
  }
}

}  // namespace

TopKHook::TopKHook(const TopKHookOptions& options) : options_(options) {
  check(options.ratio > 0 && options.ratio <= 1,
        "comm hook topk: wanted a ratio over 0 and at most 1, got ", options.ratio);
}

int64_t TopKHook::chosen_of(int64_t numel) const {
  const auto share =
      static_cast<int64_t>(std::llround(options_.ratio * static_cast<double>(numel)));
  return std::min(numel, std::max<int64_t>(1, share));
}

int64_t TopKHook::reduce(const GradBucket& bucket, ProcessGroup& group) {
  check(bucket.flat.device().is_cpu(), "comm hook topk: wanted gradients in host memory, got ",
        to_string(bucket.flat.device()));
  return dispatch_floating(bucket.flat.dtype(), "comm hook topk",
                           [&](auto zero) { return reduce_as<decltype(zero)>(bucket, group); });
}

template <class T>
int64_t TopKHook::reduce_as(const GradBucket& bucket, ProcessGroup& group) {
  using C = compute_t<T>;
  int64_t total = 0;
  int64_t largest = 0;
  for (const GradBucket::Param& param : bucket.params) {
    if (!param.used) continue;  // what is left of it waits for a step in which somebody looks
    total += chosen_of(param.grad.numel());
    largest = std::max(largest, param.grad.numel());
  }

  Tensor indexes = indexes_.get(total, DType::kI32, Device::cpu());
  Tensor values = values_.get(total, dtype_of<C>, Device::cpu());
  auto* index = indexes.mutable_data<int32_t>();
  C* value = values.mutable_data<C>();
  for (const GradBucket::Param& param : bucket.params) {
    if (!param.used) continue;
    const int64_t chosen = chosen_of(param.grad.numel());
    C* residual = residual_of(param, dtype_of<C>).template mutable_data<C>();
    add<T>(param.grad, residual);
    top_k_indexes(residual, param.grad.numel(), chosen, index);
    for (int64_t j = 0; j < chosen; ++j) *value++ = std::exchange(residual[index[j]], C{0});
    index += chosen;
  }

  Tensor all_indexes = all_indexes_.get(total * group.size(), DType::kI32, Device::cpu());
  Tensor all_values = all_values_.get(total * group.size(), dtype_of<C>, Device::cpu());
  const WorkPtr index_work = group.all_gather(all_indexes, indexes);
  group.all_gather(all_values, values)->wait();
  index_work->wait();

  // A 16-bit gradient is added up in f32 and rounded once.
  constexpr bool kInPlace = std::is_same_v<T, C>;
  Tensor scratch = kInPlace ? Tensor() : sum_.get(largest, dtype_of<C>, Device::cpu());
  int64_t offset = 0;
  for (const GradBucket::Param& param : bucket.params) {
    if (!param.used) continue;
    const int64_t numel = param.grad.numel();
    const int64_t chosen = chosen_of(numel);
    Tensor grad = param.grad;
    Tensor sum = kInPlace ? grad : scratch.slice(0, numel).reshape(grad.shape());
    ops::fill(sum, 0);
    for (int r = 0; r < group.size(); ++r) {
      const int64_t at = r * total + offset;
      scatter_add(all_indexes.data<int32_t>() + at, all_values.data<C>() + at, chosen,
                  sum.mutable_data<C>(), numel, param.name);
    }
    if (!kInPlace) ops::copy(sum, grad);
    offset += chosen;
  }
  return static_cast<int64_t>(indexes.nbytes() + values.nbytes());
}

Tensor& TopKHook::residual_of(const GradBucket::Param& param, DType dtype) {
  auto found = residuals_.find(param.name);
  if (found == residuals_.end()) {
    check(param.grad.numel() <= std::numeric_limits<int32_t>::max(), "comm hook topk: ", param.name,
          " has ", param.grad.numel(), " elements; an index has 31 bits");
    found = residuals_.emplace(param.name, Tensor::zeros(param.grad.shape(), dtype)).first;
  }
  Tensor& residual = found->second;
  check(residual.shape() == param.grad.shape() && residual.dtype() == dtype,
        "comm hook topk: ", param.name, " is ", name_of(param.grad.dtype()), " ",
        param.grad.shape(), ", but its residual that was loaded is ", name_of(residual.dtype()),
        " ", residual.shape());
  return residual;
}

std::vector<NamedTensor> TopKHook::state() const {
  std::vector<NamedTensor> state;
  for (const auto& [name, residual] : residuals_) state.push_back({kPrefix + name, residual});
  return state;
}

void TopKHook::load_state(std::span<const NamedTensor> state) {
  std::map<std::string, Tensor> loaded;
  for (const auto& [name, tensor] : state) {
    check(name.starts_with(kPrefix), "comm hook topk: load_state: wanted names that begin with ",
          kPrefix, ", got ", name);
    check(tensor.defined() && (tensor.dtype() == DType::kF32 || tensor.dtype() == DType::kF64) &&
              tensor.device().is_cpu(),
          "comm hook topk: load_state: wanted f32 or f64 in host memory for ", name);
    const std::string parameter = name.substr(std::string(kPrefix).size());
    if (!residuals_.empty()) {
      const auto known = residuals_.find(parameter);
      check(known != residuals_.end(), "comm hook topk: load_state: there is no parameter ",
            parameter);
      check(known->second.shape() == tensor.shape() && known->second.dtype() == tensor.dtype(),
            "comm hook topk: load_state: ", name, " is ", name_of(tensor.dtype()), " ",
            tensor.shape(), ", wanted ", name_of(known->second.dtype()), " ",
            known->second.shape());
    }
    check(loaded.emplace(parameter, ops::clone(tensor)).second,
          "comm hook topk: load_state: ", name, " comes twice");
  }
  residuals_ = std::move(loaded);
}

}  // namespace lockstep

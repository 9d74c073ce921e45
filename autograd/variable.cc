#include "lockstep/autograd/variable.h"

#include "lockstep/autograd/engine.h"
#include "lockstep/autograd/node.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep {
namespace {

VariableImpl& require(const std::shared_ptr<VariableImpl>& impl) {
  check(impl != nullptr, "variable: undefined");
  return *impl;
}

VariableImpl& require_leaf(const std::shared_ptr<VariableImpl>& impl, const char* what) {
  VariableImpl& v = require(impl);
  check(v.producer == nullptr, what, ": wanted a leaf, got a result of an op");
  return v;
}

}  // namespace

HookHandle& HookHandle::operator=(HookHandle&& other) noexcept {
  if (this != &other) {
    reset();
    variable_ = std::move(other.variable_);
    id_ = other.id_;
  }
  return *this;
}

void HookHandle::reset() {
  if (auto impl = variable_.lock()) {
    std::erase_if(impl->hooks, [&](const auto& hook) { return hook.first == id_; });
  }
  variable_.reset();
}

Variable::Variable(Tensor data, bool requires_grad) : impl_(std::make_shared<VariableImpl>()) {
  impl_->data = std::move(data);
  if (requires_grad) set_requires_grad(true);
}

const Tensor& Variable::data() const { return require(impl_).data; }
Tensor& Variable::mutable_data() {
  VariableImpl& leaf = require_leaf(impl_, "mutable_data");
  leaf.shadow_of = nullptr;  // the tensor itself may be replaced, by one that lies where it lay
  return leaf.data;
}
bool Variable::requires_grad() const { return require(impl_).requires_grad; }
bool Variable::is_leaf() const { return require(impl_).producer == nullptr; }
const std::shared_ptr<Node>& Variable::producer() const { return require(impl_).producer; }
Variable Variable::detach() const { return Variable(data()); }

void Variable::set_requires_grad(bool requires_grad) {
  VariableImpl& leaf = require_leaf(impl_, "set_requires_grad");
  const DType dtype = leaf.data.dtype();
  check(!requires_grad || is_computable(dtype), "set_requires_grad: a tensor of ", name_of(dtype),
        " has no gradient",
        dtype == DType::kF16 ? ", f16 only stores; cast it to f32 or bf16" : "");
  leaf.requires_grad = requires_grad;
}

std::optional<Tensor> Variable::grad() const {
  const VariableImpl& v = require(impl_);
  if (!v.grad_defined) return std::nullopt;
  return v.grad;
}

void Variable::zero_grad() {
  VariableImpl& leaf = require_leaf(impl_, "zero_grad");
  leaf.grad_defined = false;
  if (!leaf.grad_bound) leaf.grad = Tensor();
}

void Variable::bind_grad(Tensor slot) {
  VariableImpl& leaf = require_leaf(impl_, "bind_grad");
  check(
      !slot.defined() || (slot.shape() == leaf.data.shape() && slot.dtype() == leaf.data.dtype() &&
                          slot.device() == leaf.data.device()),
      "bind_grad: wanted ", name_of(leaf.data.dtype()), " of ", leaf.data.shape(), " on ",
      to_string(leaf.data.device()));
  leaf.grad_defined = false;
  leaf.grad_bound = slot.defined();
  leaf.grad = std::move(slot);
}

const Tensor& Variable::grad_slot() const {
  static const Tensor none;
  const VariableImpl& v = require(impl_);
  return v.grad_bound ? v.grad : none;
}

void Variable::set_grad_defined(bool defined) {
  VariableImpl& leaf = require_leaf(impl_, "set_grad_defined");
  check(leaf.grad_bound, "set_grad_defined: no memory is bound");
  leaf.grad_defined = defined;
}

void Variable::backward(bool retain_graph) const {
  check(data().numel() == 1, "backward: wanted a scalar (or pass the gradient of the output), got ",
        shape());
  backward(ops::full(shape(), 1.0, dtype(), device()), retain_graph);
}

void Variable::backward(const Tensor& grad, bool retain_graph) const {
  check(requires_grad(), "backward: the output depends on nothing that requires a gradient");
  check(grad.shape() == shape() && grad.dtype() == dtype() && grad.device() == device(),
        "backward: wanted a gradient of ", name_of(dtype()), " ", shape(), " on ",
        to_string(device()), ", got ", name_of(grad.dtype()), " ", grad.shape(), " on ",
        to_string(grad.device()));
  Engine::run(*this, grad, retain_graph);
}

HookHandle Variable::on_grad_ready(GradHook hook) {
  VariableImpl& leaf = require_leaf(impl_, "on_grad_ready");
  leaf.hooks.emplace_back(leaf.next_hook, std::move(hook));
  return HookHandle(impl_, leaf.next_hook++);
}

}  // namespace lockstep

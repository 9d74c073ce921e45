#include "lockstep/autograd/shadow.h"

#include "lockstep/autograd/node.h"
#include "lockstep/tensor/ops/copy.h"

#include <utility>

namespace lockstep {
namespace {

thread_local uint64_t conversion_count = 0;

}  // namespace

const Tensor& Shadow::of(const Variable& leaf) {
  VariableImpl& v = *leaf.impl_;
  check(v.producer == nullptr && v.data.dtype() == DType::kF32,
        "Shadow: wanted a leaf of f32, got ", name_of(v.data.dtype()));
  if (!fresh(leaf)) {
    // Never into the old one's memory: a graph may have saved it, and others share its arena.
    set(leaf, ops::cast(v.data, DType::kBF16));
    ++conversion_count;
  }
  return v.shadow;
}

bool Shadow::used(const Variable& leaf) { return leaf.impl_->shadow.defined(); }

bool Shadow::fresh(const Variable& leaf) {
  const VariableImpl& v = *leaf.impl_;
  return v.shadow.defined() && v.shadow_of == v.data.raw() && v.shadow_version == v.data.version();
}

void Shadow::set(const Variable& leaf, Tensor values) {
  check(values.dtype() == DType::kBF16 && values.shape() == leaf.shape(), "Shadow: wanted bf16 ",
        leaf.shape(), ", got ", name_of(values.dtype()), " ", values.shape());
  leaf.impl_->shadow = std::move(values);
  renew(leaf);
}

void Shadow::renew(const Variable& leaf) {
  VariableImpl& v = *leaf.impl_;
  v.shadow_of = v.data.raw();
  v.shadow_version = v.data.version();
}

uint64_t Shadow::conversions() { return conversion_count; }

}  // namespace lockstep

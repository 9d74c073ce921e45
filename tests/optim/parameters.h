// Parameters and gradients for the tests of optimizers.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <vector>

namespace lockstep::testing {

inline const std::vector<Shape> kShapes{{3, 5}, {64}, {}, {7}, {2, 3, 2}};

inline std::vector<NamedParameter> make_parameters(DType dtype = DType::kF32) {
  std::vector<NamedParameter> list;
  for (size_t i = 0; i < kShapes.size(); ++i) {
    list.push_back({str("p", i), Variable(random_tensor(kShapes[i], i, -1, 1, dtype), true)});
  }
  return list;
}

inline std::vector<Variable> variables(const std::vector<NamedParameter>& list) {
  std::vector<Variable> out;
  for (const NamedParameter& entry : list) out.push_back(entry.parameter);
  return out;
}

/// Gives `parameter` this gradient, as a backward would: into the bound memory if there is some.
inline void set_grad(Variable parameter, const Tensor& grad) {
  Tensor slot = parameter.grad_slot();
  if (!slot.defined()) {
    slot = Tensor::empty(parameter.shape(), parameter.dtype());
    parameter.bind_grad(slot);
  }
  ops::copy(grad, slot);
  parameter.set_grad_defined(true);
}

/// The gradient of some step.
inline void set_grad(const Variable& parameter, uint64_t seed) {
  set_grad(parameter, random_tensor(parameter.shape(), 100 + seed, -1, 1, parameter.dtype()));
}

inline void set_grads(const std::vector<NamedParameter>& list, uint64_t step) {
  for (size_t i = 0; i < list.size(); ++i) set_grad(list[i].parameter, 10 * step + i);
}

inline void check_equal(const std::vector<NamedParameter>& a,
                        const std::vector<NamedParameter>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i].parameter.data().to_vector<float>() == b[i].parameter.data().to_vector<float>());
  }
}

}  // namespace lockstep::testing

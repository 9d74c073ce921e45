#include "lockstep/tensor/ops/optimizer.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

using namespace testing;

// The compilers may contract a product and a sum into one rounding, hence not to the bit; bf16 then
// rounds to its neighbour at most.
double tolerance_of(DType dtype) {
  return dtype == DType::kF64 ? 2e-15 : dtype == DType::kF32 ? 1e-6 : 1e-2;
}

TEST_CASE("sgd_step on cuda equals the CPU's") {
  on_cuda_device([] {
    for (const SgdStep& step :
         {SgdStep{.lr = 0.1, .weight_decay = 0.01},
          SgdStep{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
          SgdStep{.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01},
          SgdStep{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}}) {
      Tensor param = random_tensor({301}, 1, -1, 1, DType::kF32);
      Tensor velocity = step.momentum == 0 ? Tensor() : random_tensor({301}, 2, -1, 1, DType::kF32);
      const Tensor grad = random_tensor({301}, 3, -1, 1, DType::kF32);
      Tensor param_on_cuda = to_cuda(ops::clone(param));
      Tensor velocity_on_cuda = step.momentum == 0 ? Tensor() : to_cuda(ops::clone(velocity));
      ops::sgd_step(param, grad, velocity, step);
      ops::sgd_step(param_on_cuda, to_cuda(grad), velocity_on_cuda, step);
      CHECK(relative_difference(to_cpu(param_on_cuda), param) <= 1e-6);
      if (step.momentum != 0)
        CHECK(relative_difference(to_cpu(velocity_on_cuda), velocity) <= 1e-6);
    }
  });
}

TEST_CASE("adam_step on cuda equals the CPU's") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const bool decoupled : {false, true}) {
        const AdamStep step{
            .lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = decoupled, .step = 3};
        Tensor p = random_tensor({301}, 1, -1, 1, dtype), m = random_tensor({301}, 2, -1, 1, dtype);
        Tensor v = random_tensor({301}, 3, 0.1, 1, dtype);
        const Tensor grad = random_tensor({301}, 4, -1, 1, dtype);
        Tensor p_on_cuda = to_cuda(ops::clone(p)), m_on_cuda = to_cuda(ops::clone(m));
        Tensor v_on_cuda = to_cuda(ops::clone(v));
        ops::adam_step(p, grad, m, v, step);
        ops::adam_step(p_on_cuda, to_cuda(grad), m_on_cuda, v_on_cuda, step);
        CHECK(relative_difference(to_cpu(p_on_cuda), p) <= tolerance_of(dtype));
        CHECK(relative_difference(to_cpu(m_on_cuda), m) <= tolerance_of(dtype));
        CHECK(relative_difference(to_cpu(v_on_cuda), v) <= tolerance_of(dtype));
      }
    }
  });
}

TEST_CASE("lamb_step on cuda equals the CPU's") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const int64_t n : {0, 1, 301, 9001}) {
        for (const double scale : {1.0, 0.0}) {  // a parameter of zeros: the ratio is 1
          INFO(name_of(dtype), " ", n, " scale ", scale);
          const AdamStep step{.lr = 0.1, .weight_decay = 0.1, .step = 3};
          Tensor p = random_tensor({n}, 1, -scale, scale, dtype);
          Tensor m = random_tensor({n}, 2, -1, 1, dtype), v = random_tensor({n}, 3, 0.1, 1, dtype);
          const Tensor grad = random_tensor({n}, 4, -1, 1, dtype);
          Tensor p_on_cuda = to_cuda(ops::clone(p)), m_on_cuda = to_cuda(ops::clone(m));
          Tensor v_on_cuda = to_cuda(ops::clone(v));
          ops::lamb_step(p, grad, m, v, step);
          ops::lamb_step(p_on_cuda, to_cuda(grad), m_on_cuda, v_on_cuda, step);
          CHECK(relative_difference(to_cpu(p_on_cuda), p) <= tolerance_of(dtype));
          CHECK(relative_difference(to_cpu(m_on_cuda), m) <= tolerance_of(dtype));
          CHECK(relative_difference(to_cpu(v_on_cuda), v) <= tolerance_of(dtype));
        }
      }
    }
  });
}

TEST_CASE("each optimizer on cuda writes the bf16 shadow of the new values, aligned or not") {
  on_cuda_device([] {
    for (const int64_t begin : {0, 1}) {
      for (int which = 0; which < 3; ++which) {
        INFO("optimizer ", which, " from ", begin);
        const auto tensor = [&](uint64_t seed, double low) {
          return to_cuda(random_tensor({302}, seed, low, 1, DType::kF32)).slice(begin, 301);
        };
        Tensor p = tensor(1, -1), m = tensor(2, -1), v = tensor(3, 0.1);
        const Tensor before = ops::clone(to_cpu(p)), grad = tensor(4, -1);
        Tensor shadow = Tensor::zeros({302}, DType::kBF16, Device::cuda()).slice(begin, 301);
        const AdamStep step{.lr = 0.1, .step = 3};
        if (which == 0) ops::sgd_step(p, grad, m, {.lr = 0.1, .momentum = 0.9}, shadow);
        if (which == 1) ops::adam_step(p, grad, m, v, step, shadow);
        if (which == 2) ops::lamb_step(p, grad, m, v, step, shadow);
        CHECK(relative_difference(to_cpu(p), before) > 0.01);
        CHECK(relative_difference(to_cpu(shadow), ops::cast(to_cpu(p), DType::kBF16)) == 0);
      }
    }
  });
}

TEST_CASE("lerp on cuda equals the CPU's") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const double weight : {0.0, 0.1, 0.9, 1.0}) {
        Tensor average = random_tensor({301}, 1, -1, 1, dtype);
        const Tensor value = random_tensor({301}, 2, -1, 1, dtype);
        Tensor on_cuda = to_cuda(ops::clone(average));
        ops::lerp(average, value, weight);
        ops::lerp(on_cuda, to_cuda(value), weight);
        CHECK(relative_difference(to_cpu(on_cuda), average) <= tolerance_of(dtype));
      }
    }
  });
}

}  // namespace
}  // namespace lockstep

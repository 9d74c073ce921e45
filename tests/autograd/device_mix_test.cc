// Operands on two devices are refused before a kernel follows a pointer into the wrong memory.
#include "lockstep/autograd/ops/conv.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/metrics.h"
#include "lockstep/tests/support/sim_device.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

Variable on(Device device, const Shape& shape) {
  return Variable(Tensor::zeros(shape, DType::kF32, device), true);
}

TEST_CASE("a parameter, a target or a gradient on another device is refused by name") {
  const testing::SimDevice sim;
  const Device host = Device::cpu(), gpu = Device::cuda();
  const auto refused = [](const auto& call, const char* what) {
    CAPTURE(what);
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), ArgumentError);
  };
  const Variable images = on(host, {1, 4, 4, 2});
  const Variable weight = on(host, {3, 3, 3, 2});
  refused([&] { conv2d(images, on(gpu, {3, 3, 3, 2})); }, "conv2d: wanted the weight on cpu");
  refused([&] { conv2d(images, weight, on(gpu, {3})); }, "conv2d: wanted the bias on cpu");

  const Variable x = on(host, {4, 3});
  const Variable channels = on(host, {3});
  const auto normalised = [&](Device parameters, Device statistics, bool training) {
    batch_norm(x, on(parameters, {3}), channels, on(statistics, {3}).data(),
               on(statistics, {3}).data(), {.training = training});
  };
  refused([&] { normalised(gpu, host, true); }, "a weight on cpu");
  refused([&] { normalised(host, gpu, true); }, "batch_norm_update_running");
  refused([&] { normalised(host, gpu, false); }, "a mean on cpu");

  refused([&] { linear(x, on(gpu, {2, 3})); }, "matmul: wanted the second operand on cpu");
  refused([&] { linear(x, on(host, {2, 3}), on(gpu, {2})); }, "linear: wanted the bias on cpu");
  refused([&] { add(x, on(gpu, {3})); }, "add: wanted the second operand on cpu");
  const Tensor targets = Tensor::zeros({4}, DType::kI64, gpu);
  refused([&] { cross_entropy(x, targets); }, "cross_entropy: wanted the targets on cpu");
  refused([&] { ops::count_correct(x.data(), targets); }, "count_correct: wanted the targets");
  Tensor sum = Tensor::zeros({3}, DType::kF32);
  refused([&] { ops::add_scaled(on(gpu, {3}).data(), 1, sum); }, "add_scaled: wanted x on cpu");

  Variable leaf = on(host, {3});
  refused([&] { leaf.bind_grad(Tensor::zeros({3}, DType::kF32, gpu)); }, "bind_grad");
  refused(
      [&] {
        add(x, x).backward(Tensor::zeros({4, 3}, DType::kF32, gpu));
      },
      "backward: wanted a gradient of f32 [4, 3] on cpu");
}

}  // namespace
}  // namespace lockstep

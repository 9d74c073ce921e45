#include "lockstep/tensor/ops/conv.h"

#include "lockstep/tensor/tf32.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <vector>

namespace lockstep {
namespace {

using namespace testing;

struct Case {
  Shape x, weight;
  Conv2dOptions options;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {{2, 5, 6, 3}, {4, 3, 3, 3}, {.padding = {1, 1}}},
      {{1, 7, 9, 5}, {7, 1, 1, 5}, {.stride = {2, 2}}},
      {{2, 8, 7, 4}, {6, 3, 2, 2}, {.stride = {2, 1}, .padding = {2, 1}, .groups = 2}},
      {{1, 9, 8, 3},
       {3, 3, 3, 1},
       {.stride = {1, 3}, .padding = {0, 2}, .dilation = {2, 3}, .groups = 3}},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {{0, 4, 4, 2}, {3, 2, 2, 2}, {}},
  };
  return all;
}

struct Types {
  DType x, weight, bias;
};
constexpr Types kTypes[] = {{DType::kF32, DType::kF32, DType::kF32},
                            {DType::kF64, DType::kF64, DType::kF64},
                            {DType::kBF16, DType::kBF16, DType::kBF16},
                            {DType::kBF16, DType::kF32, DType::kF32},
                            {DType::kBF16, DType::kBF16, DType::kF32}};

// Sums of at most 100 products in another order; bf16 rounds the result, and the CPU's kernels may
// round f32 weights to bf16 before and what they add to f32 after.
double tolerance(const Types& types) {
  return types.x == DType::kF64 ? 1e-14 : types.x == DType::kF32 ? 2e-6 : 1.5e-2;
}

TEST_CASE("conv2d on cuda equals the CPU's for every option and mix of dtypes") {
  on_cuda_device([] {
    for (const Types& types : kTypes) {
      for (const Case& c : cases()) {
        INFO(name_of(types.x), " with ", name_of(types.weight), ", ", c.x.to_string(), " by ",
             c.weight.to_string());
        const Tensor x = random_tensor(c.x, 1, -1, 1, types.x);
        const Tensor weight = random_tensor(c.weight, 2, -1, 1, types.weight);
        const Tensor bias = random_tensor({c.weight[0]}, 3, -1, 1, types.bias);
        const Tensor wanted = ops::conv2d(x, weight, bias, c.options);
        const Tensor got =
            to_cpu(ops::conv2d(to_cuda(x), to_cuda(weight), to_cuda(bias), c.options));
        CHECK(relative_difference(got, wanted) <= tolerance(types));
        const Tensor plain = to_cpu(ops::conv2d(to_cuda(x), to_cuda(weight), {}, c.options));
        CHECK(relative_difference(plain, ops::conv2d(x, weight, {}, c.options)) <=
              tolerance(types));
      }
    }
  });
}

TEST_CASE("the gradients of conv2d on cuda equal the CPU's, written and added") {
  on_cuda_device([] {
    for (const Types& types : kTypes) {
      for (const Case& c : cases()) {
        INFO(name_of(types.x), " with ", name_of(types.weight), ", ", c.x.to_string(), " by ",
             c.weight.to_string());
        const Tensor x = random_tensor(c.x, 1, -1, 1, types.x);
        const Tensor weight = random_tensor(c.weight, 2, -1, 1, types.weight);
        const Tensor grad =
            random_tensor(ops::conv2d(x, weight, {}, c.options).shape(), 4, -1, 1, types.x);
        const Tensor bias = random_tensor({c.weight[0]}, 3, -1, 1, types.bias);
        for (const bool accumulate : {false, true}) {
          const auto compare = [&](const char* of, const Tensor& before, const auto& fn) {
            INFO("the gradient of ", of, ", accumulate ", accumulate);
            const Tensor wanted = into(Device::cpu(), before, accumulate,
                                       [&](const Dest& d) { fn(d, Device::cpu()); });
            const Tensor got = into(Device::cuda(), before, accumulate,
                                    [&](const Dest& d) { fn(d, Device::cuda()); });
            CHECK(relative_difference(got, wanted) <= tolerance(types));
          };
          const auto on = [](const Tensor& t, Device device) {
            return device == Device::cpu() ? t : to_cuda(t);
          };
          // The images' gradient may be f32 where the weight is.
          compare("x", random_tensor(c.x, 5, -1, 1, types.weight),
                  [&](const Dest& d, Device device) {
                    ops::conv2d_backward_data(on(grad, device), on(weight, device), c.options, d);
                  });
          compare("weight", weight, [&](const Dest& d, Device device) {
            ops::conv2d_backward_weight(on(grad, device), on(x, device), c.options, d);
          });
          compare("bias", bias, [&](const Dest& d, Device device) {
            ops::conv2d_backward_bias(on(grad, device), d);
          });
        }
      }
    }
  });
}

TEST_CASE("f32 convolutions on cuda are f32 unless TF32 is allowed, and near even then") {
  CHECK_FALSE(allow_tf32());
  on_cuda_device([] {
    const Tensor x = random_tensor({2, 7, 6, 8}, 1, -1, 1, DType::kF32);
    const Tensor weight = random_tensor({16, 3, 3, 8}, 2, -1, 1, DType::kF32);
    const Conv2dOptions options{.padding = {1, 1}};
    const Tensor wanted = ops::conv2d(x, weight, {}, options);
    const auto difference = [&] {
      return relative_difference(to_cpu(ops::conv2d(to_cuda(x), to_cuda(weight), {}, options)),
                                 wanted);
    };
    CHECK(difference() <= 2e-6);
    set_allow_tf32(true);
    const double rounded = difference();
    set_allow_tf32(false);
    CHECK(rounded <= 2e-3);  // operands keep 11 bits
  });
}

}  // namespace
}  // namespace lockstep

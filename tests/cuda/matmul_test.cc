#include "lockstep/tensor/ops/matmul.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/tf32.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

using namespace testing;

// Sums of 40 products of numbers below 1 in another order; bf16 rounds once, at the end.
double tolerance(DType dtype) {
  return dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 2e-6 : 8e-3;
}

Shape stored(int64_t rows, int64_t columns, bool transposed, int64_t batch) {
  if (transposed) std::swap(rows, columns);
  return batch == 0 ? Shape({rows, columns}) : Shape({batch, rows, columns});
}

TEST_CASE("matmul on cuda equals the CPU's for odd shapes, transposed operands and batches") {
  struct Extents {
    int64_t m, n, k, batch_a, batch_b;  // batch 0: one matrix
  };
  on_cuda_device([] {
    for (const Extents& e : {Extents{1, 1, 1, 0, 0},
                             {17, 33, 20, 0, 0},
                             {9, 4, 16, 3, 3},
                             {9, 20, 5, 2, 0},
                             {3, 5, 18, 0, 2}}) {
      for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
        for (const bool transpose_a : {false, true}) {
          for (const bool transpose_b : {false, true}) {
            const Tensor a =
                random_tensor(stored(e.m, e.k, transpose_a, e.batch_a), 1, -1, 1, dtype);
            const Tensor b =
                random_tensor(stored(e.k, e.n, transpose_b, e.batch_b), 2, -1, 1, dtype);
            const MatmulOptions options{transpose_a, transpose_b};
            const Tensor wanted = ops::matmul(a, b, options);
            CHECK(relative_difference(to_cpu(ops::matmul(to_cuda(a), to_cuda(b), options)),
                                      wanted) <= tolerance(dtype));
            const Tensor before = random_tensor(wanted.shape(), 3, -1, 1, dtype);
            const Tensor sum = into(Device::cpu(), before, true,
                                    [&](const Dest& d) { ops::matmul(a, b, options, d); });
            const Tensor got = into(Device::cuda(), before, true, [&](const Dest& d) {
              ops::matmul(to_cuda(a), to_cuda(b), options, d);
            });
            CHECK(relative_difference(got, sum) <= tolerance(dtype));
          }
        }
      }
    }
  });
}

TEST_CASE("linear and the gradient of its bias on cuda equal the CPU's") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      const Tensor x = random_tensor({13, 21}, 1, -1, 1, dtype);
      const Tensor weight = random_tensor({35, 21}, 2, -1, 1, dtype);
      const Tensor bias = random_tensor({35}, 3, -1, 1, dtype);
      const Tensor got = to_cpu(ops::linear(to_cuda(x), to_cuda(weight), to_cuda(bias)));
      CHECK(relative_difference(got, ops::linear(x, weight, bias)) <= tolerance(dtype));
      for (const bool accumulate : {false, true}) {
        const Tensor grad = random_tensor({13, 35}, 4, -1, 1, dtype);
        const Tensor wanted =
            into(Device::cpu(), bias, accumulate, [&](const Dest& d) { ops::sum_rows(grad, d); });
        const Tensor sums = into(Device::cuda(), bias, accumulate,
                                 [&](const Dest& d) { ops::sum_rows(to_cuda(grad), d); });
        CHECK(relative_difference(sums, wanted) <= tolerance(dtype));
      }
    }
  });
}

TEST_CASE("the gradients of a linear layer's weight and bias together on cuda equal the CPU's") {
  struct Types {
    DType operands, weight, bias;
  };
  on_cuda_device([] {
    for (const Types& t : {Types{DType::kF32, DType::kF32, DType::kF32},
                           {DType::kF64, DType::kF64, DType::kF64},
                           {DType::kBF16, DType::kF32, DType::kF32},
                           {DType::kBF16, DType::kBF16, DType::kBF16},
                           {DType::kBF16, DType::kF32, DType::kBF16}}) {
      for (const int64_t rows : {0, 1, 40}) {
        for (const bool add_weight : {false, true}) {
          for (const bool add_bias : {false, true}) {
            const Tensor grad_y = random_tensor({rows, 24}, 1, -1, 1, t.operands);
            const Tensor x = random_tensor({rows, 33}, 2, -1, 1, t.operands);
            const Tensor before = random_tensor({24, 33}, 3, -1, 1, t.weight);
            const auto run = [&](Device device) {
              const auto there = [&](const Tensor& v) {
                return ops::to_device(ops::clone(v), device);
              };
              const Tensor weight = there(before);
              const Tensor bias = there(random_tensor({24}, 4, -1, 1, t.bias));
              ops::linear_backward_weight(there(grad_y), there(x), {weight, add_weight},
                                          {bias, add_bias});
              return std::pair(to_cpu(weight), to_cpu(bias));
            };
            const auto [weight, bias] = run(Device::cpu());
            const auto [weight_got, bias_got] = run(Device::cuda());
            CHECK(relative_difference(weight_got, weight) <= tolerance(t.weight));
            CHECK(relative_difference(bias_got, bias) <= tolerance(t.bias));
            const auto [again, bias_again] = run(Device::cuda());
            CHECK(relative_difference(again, weight_got) == 0);
            CHECK(relative_difference(bias_again, bias_got) == 0);
          }
        }
      }
    }
  });
}

TEST_CASE("bf16 operands on cuda: results and biases may be f32") {
  on_cuda_device([] {
    const Tensor a = random_tensor({19, 24}, 1, -1, 1, DType::kBF16);
    const Tensor b = random_tensor({40, 24}, 2, -1, 1, DType::kBF16);
    const Tensor bias = random_tensor({40}, 3, -1, 1, DType::kF32);
    CHECK(relative_difference(to_cpu(ops::linear(to_cuda(a), to_cuda(b), to_cuda(bias))),
                              ops::linear(a, b, bias)) <= tolerance(DType::kBF16));
    for (const bool accumulate : {false, true}) {
      const auto product = [&](Device device) {
        return into(device, random_tensor({19, 40}, 4, -1, 1, DType::kF32), accumulate,
                    [&](const Dest& d) {
                      ops::matmul(ops::to_device(a, device), ops::to_device(b, device),
                                  {.transpose_b = true}, d);
                    });
      };
      CHECK(relative_difference(product(Device::cuda()), product(Device::cpu())) <=
            tolerance(DType::kF32));
      const auto sums = [&](Device device) {
        return into(device, random_tensor({24}, 5, -1, 1, DType::kF32), accumulate,
                    [&](const Dest& d) { ops::sum_rows(ops::to_device(a, device), d); });
      };
      CHECK(relative_difference(sums(Device::cuda()), sums(Device::cpu())) <=
            tolerance(DType::kF32));
    }
  });
}

TEST_CASE("f32 products on cuda are f32 unless TF32 is allowed, and near even then") {
  CHECK_FALSE(allow_tf32());
  on_cuda_device([] {
    const Tensor a = random_tensor({64, 40}, 1, -1, 1, DType::kF32);
    const Tensor b = random_tensor({40, 32}, 2, -1, 1, DType::kF32);
    const Tensor wanted = ops::matmul(a, b);
    CHECK(relative_difference(to_cpu(ops::matmul(to_cuda(a), to_cuda(b))), wanted) <=
          tolerance(DType::kF32));
    set_allow_tf32(true);
    const Tensor rounded = to_cpu(ops::matmul(to_cuda(a), to_cuda(b)));
    set_allow_tf32(false);
    // Operands keep 11 bits: 40 products, each off by 2^-11 of itself at most.
    CHECK(relative_difference(rounded, wanted) <= 2e-3);
  });
}

}  // namespace
}  // namespace lockstep

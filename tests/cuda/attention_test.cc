#include "lockstep/autograd/ops/attention.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

struct Case {
  int64_t batch, heads, queries, keys, width;
  bool causal, padding;
  double dropout;
};

/// Sample 0 has holes in its keys, sample 1 nothing but padding.
Tensor padding_of(const Case& c) {
  Tensor mask = Tensor::zeros({c.batch, c.keys}, DType::kU8);
  uint8_t* m = mask.mutable_data<uint8_t>();
  if (c.batch > 0 && c.keys > 2) m[0] = m[c.keys - 1] = 1;
  for (int64_t j = 0; c.batch > 1 && j < c.keys; ++j) m[c.keys + j] = 1;
  return mask;
}

AttentionOptions options_on(Device device, const Case& c) {
  AttentionOptions options{.causal = c.causal, .dropout = c.dropout};
  if (c.padding) options.key_padding_mask = ops::to_device(padding_of(c), device);
  if (c.dropout > 0) options.scale = 0.7;
  return options;
}

/// The result and the gradients of one forward and two backwards, which add up.
std::vector<Tensor> run_on(Device device, const Case& c, DType dtype) {
  const auto leaf = [&](int64_t rows, uint64_t seed) {
    const Tensor x = random_tensor({c.batch, c.heads, rows, c.width}, seed, -1, 1, dtype);
    return Variable(ops::to_device(x, device), true);
  };
  const Variable q = leaf(c.queries, 1), k = leaf(c.keys, 2), v = leaf(c.keys, 3);
  Generator rng(9);
  const Variable y = scaled_dot_product_attention(q, k, v, 0, options_on(device, c), &rng);
  const Tensor grad = ops::to_device(random_tensor(y.data().shape(), 4, -1, 1, dtype), device);
  y.backward(grad);
  Generator again(9);
  scaled_dot_product_attention(q, k, v, 0, options_on(device, c), &again).backward(grad);
  std::vector<Tensor> results{y.data(), *q.grad(), *k.grad(), *v.grad()};
  for (Tensor& result : results) result = to_cpu(result);
  return results;
}

// Sums of up to 140 products, and an exponential, in another order; bf16 rounds the results, and
// backward reads the rounded result.
double tolerance(DType dtype) {
  return dtype == DType::kF64 ? 1e-13 : dtype == DType::kF32 ? 1e-5 : 2e-2;
}

TEST_CASE("attention on cuda equals the CPU's, forward and backward, for every mask and dropout") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Case& sizes : {Case{2, 2, 3, 5, 4, false, false, 0},
                                {1, 1, 1, 2, 1, false, false, 0},
                                {2, 1, 9, 33, 6, false, false, 0},
                                {1, 1, 19, 40, 140, false, false, 0},
                                {2, 1, 8, 16, 64, false, false, 0},  // cuDNN takes it in bf16
                                {0, 2, 3, 3, 2, false, false, 0}}) {
        for (const bool causal : {false, true}) {
          if (causal && sizes.queries == 1) continue;  // one key: its score has no gradient
          for (const bool padding : {false, true}) {
            for (const double dropout : {0.0, 0.4}) {
              Case c = sizes;
              c.causal = causal, c.padding = padding, c.dropout = dropout;
              const auto got = run_on(Device::cuda(), c, dtype);
              const auto wanted = run_on(Device::cpu(), c, dtype);
              for (size_t i = 0; i < got.size(); ++i) {
                INFO("result ", i, ", ", std::string(name_of(dtype)), ", ", c.queries,
                     " queries, causal ", causal, ", padding ", padding, ", dropout ", dropout);
                CHECK(relative_difference(got[i], wanted[i]) <= tolerance(dtype));
              }
            }
          }
        }
      }
    }
  });
}

TEST_CASE("attention on cuda: operands side by side, whose gradients are parts of one tensor") {
  on_cuda_device([] {
    const auto packed_on = [](Device device) {
      const Variable x(ops::to_device(random_tensor({2, 11, 3 * 12}, 1), device), true);
      const Variable y = packed_self_attention(x, 3, {.causal = true});
      y.backward(ops::to_device(random_tensor({2, 11, 12}, 2), device));
      return std::vector<Tensor>{to_cpu(y.data()), to_cpu(*x.grad())};
    };
    const auto got = packed_on(Device::cuda());
    const auto wanted = packed_on(Device::cpu());
    for (size_t i = 0; i < got.size(); ++i) CHECK(relative_difference(got[i], wanted[i]) <= 1e-13);
  });
}

TEST_CASE("attention on cuda: the log-sum-exp is the CPU's, infinite where no key is seen") {
  on_cuda_device([] {
    const Case c{2, 1, 4, 35, 3, true, true, 0};
    const Tensor q = random_tensor({2, 1, 4, 3}, 1), k = random_tensor({2, 1, 35, 3}, 2);
    const AttentionLayout layout = ops::attention_layout(q, k, k, 0);
    const auto params = ops::attention_params(layout, options_on(Device::cpu(), c), nullptr);
    const Tensor padding = padding_of(c);
    const auto wanted = ops::attention(q, k, k, padding, layout, params, q.shape());
    const auto got = ops::attention(to_cuda(q), to_cuda(k), to_cuda(k), to_cuda(padding), layout,
                                    params, q.shape());
    CHECK(relative_difference(to_cpu(got.lse), wanted.lse) <= 1e-14);
    CHECK(std::isinf(to_cpu(got.lse).to_vector<double>()[0]));
  });
}

TEST_CASE("attention on cuda: a NaN is not hidden") {
  on_cuda_device([] {
    Tensor k = random_tensor({1, 1, 3, 2}, 1);
    k.mutable_data<double>()[0] = NAN;
    const Variable q(to_cuda(random_tensor({1, 1, 2, 2}, 2))),
        v(to_cuda(random_tensor(k.shape(), 3)));
    const Variable y = scaled_dot_product_attention(q, Variable(to_cuda(k)), v);
    for (const double value : to_cpu(y.data()).to_vector<double>()) CHECK(std::isnan(value));
  });
}

}  // namespace
}  // namespace lockstep

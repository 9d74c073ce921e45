#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/group_norm.h"
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
  int64_t rows, width;
  double dropout;
};

/// Rows by warps and by blocks, of whole packs and not, in one chunk and in several, longer than
/// the columns that the threads of a block have registers for; none.
const Case kCases[] = {{9, 1, 0.5}, {3, 7, 0.25},   {70, 40, 0.1}, {5, 768, 0.1},
                       {37, 96, 0}, {1, 2101, 0.3}, {2, 2112, 0},  {0, 5, 0.5}};

// Sums of up to 2112 terms in another order. What is rounded to bf16 on the way is rounded the
// other way now and then: the sum, and a gradient that is added.
double tolerance(DType dtype) {
  return dtype == DType::kF64 ? 1e-13 : dtype == DType::kF32 ? 1e-5 : 1.6e-2;
}
double statistics_tolerance(DType dtype) {
  return dtype == DType::kF64 ? 1e-13 : dtype == DType::kF32 ? 1e-5 : 1e-3;
}

Tensor on_gpu(const Tensor& t) { return t.defined() ? to_cuda(t) : t; }

struct Problem {
  DType dtype, wide;
  int64_t width;
  Tensor x, residual, x_bias, weight, bias, grad;
  DropoutMask mask;

  Problem(const Case& c, DType type, bool affine)
      : dtype(type), wide(type == DType::kBF16 ? DType::kF32 : type), width(c.width) {
    const Shape shape{c.rows, c.width}, vector{c.width};
    x = random_tensor(shape, 1, -1, 3, dtype);
    residual = random_tensor(shape, 2, -1, 3, dtype);
    grad = random_tensor(shape, 3, -1, 1, dtype);
    if (affine) {
      x_bias = random_tensor(vector, 4, -1, 1, wide);
      weight = random_tensor(vector, 5, 0.5, 2, wide);
      bias = random_tensor(vector, 6, -1, 1, wide);
    }
    Generator rng(7);
    rng.take(3);
    if (c.dropout > 0) mask = ops::dropout_mask(rng.take(x.numel()), c.dropout);
  }
  ops::AddNormResult forward(Device device, bool keep_sum = true) const {
    const auto there = [&](const Tensor& t) { return device.is_cpu() ? t : on_gpu(t); };
    return ops::dropout_add_layer_norm(there(x), there(residual), width, mask, there(x_bias),
                                       there(weight), there(bias), 1e-5, keep_sum);
  }
};

TEST_CASE("dropout_add_layer_norm on cuda equals the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Case& c : kCases) {
        for (const bool affine : {false, true}) {
          if (!affine && c.width > 2000) continue;  // long, and nothing new
          INFO(std::string(name_of(dtype)), " ", c.rows, " x ", c.width, ", affine ", affine);
          const Problem p(c, dtype, affine);
          const auto wanted = p.forward(Device::cpu());
          const auto got = p.forward(Device::cuda());
          // The factor of dropout may be contracted with the sum.
          CHECK(relative_difference(to_cpu(got.sum), wanted.sum) <=
                (dtype == DType::kBF16 ? 4e-3 : 1e-6));
          CHECK(relative_difference(to_cpu(got.y), wanted.y) <= tolerance(dtype));
          CHECK(relative_difference(to_cpu(got.mean), wanted.mean) <= statistics_tolerance(dtype));
          CHECK(relative_difference(to_cpu(got.rstd), wanted.rstd) <= statistics_tolerance(dtype));
          const Tensor alone = p.forward(Device::cuda(), false).y;
          CHECK(relative_difference(to_cpu(alone), to_cpu(got.y)) == 0);

          if (c.width == 1) continue;  // the gradient is 0 but for rounding
          const Tensor before = random_tensor(p.x.shape(), 8, -1, 1, dtype);
          const Tensor there = on_gpu(p.grad);
          const ops::AddNormResult same{
              .sum = on_gpu(wanted.sum), .mean = on_gpu(wanted.mean), .rstd = on_gpu(wanted.rstd)};
          for (const bool accumulate : {false, true}) {
            const int64_t vectors = affine ? 3 : 2;
            Tensor sums = Tensor::empty({vectors, c.width}, p.wide);
            Tensor sums_got = Tensor::empty({vectors, c.width}, p.wide, Device::cuda());
            Tensor residual_wanted = ops::clone(before);
            Tensor residual_got = to_cuda(before);
            const Tensor grad_wanted = into(Device::cpu(), before, accumulate, [&](const Dest& d) {
              ops::dropout_add_layer_norm_backward(p.grad, wanted, c.width, p.mask, p.weight, d,
                                                   {residual_wanted, accumulate}, sums);
            });
            const Tensor grad_got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
              ops::dropout_add_layer_norm_backward(there, same, c.width, p.mask, on_gpu(p.weight),
                                                   d, {residual_got, accumulate}, sums_got);
            });
            CHECK(relative_difference(grad_got, grad_wanted) <= tolerance(dtype));
            CHECK(relative_difference(to_cpu(residual_got), residual_wanted) <= tolerance(dtype));
            // bf16's gradient of x is rounded before the CPU adds up x_bias's.
            CHECK(relative_difference(to_cpu(sums_got), sums) <=
                  (dtype == DType::kBF16 ? 4e-3 : statistics_tolerance(dtype)));
          }
        }
      }
    }
  });
}

TEST_CASE("dropout_add_layer_norm on cuda: only the gradients that are wanted") {
  on_cuda_device([] {
    const Problem p({6, 8, 0.25}, DType::kF64, true);
    const auto forward = p.forward(Device::cpu());
    const ops::AddNormResult there{
        .sum = to_cuda(forward.sum), .mean = to_cuda(forward.mean), .rstd = to_cuda(forward.rstd)};
    const auto run = [&](Device device, int what, int64_t vectors) {
      const bool cpu = device.is_cpu();
      const auto target = [&](bool wanted) {
        return wanted ? Dest{Tensor::zeros({6, 8}, DType::kF64, device)} : Dest{};
      };
      const Dest x = target((what & 1) != 0), residual = target((what & 2) != 0);
      Tensor sums = vectors > 0 ? Tensor::zeros({vectors, 8}, DType::kF64, device) : Tensor();
      ops::dropout_add_layer_norm_backward(cpu ? p.grad : to_cuda(p.grad), cpu ? forward : there, 8,
                                           p.mask, cpu ? p.weight : to_cuda(p.weight), x, residual,
                                           sums);
      std::vector<Tensor> results;
      for (const Tensor& t : {x.out, residual.out, sums})
        if (t.defined()) results.push_back(to_cpu(t));
      return results;
    };
    for (const int what : {0, 1, 2, 3}) {
      for (const int64_t vectors : {0, 2, 3}) {
        if (what == 0 && vectors == 0) continue;
        INFO(what, " ", vectors);
        const auto wanted = run(Device::cpu(), what, vectors);
        const auto got = run(Device::cuda(), what, vectors);
        REQUIRE(got.size() == wanted.size());
        for (size_t i = 0; i < got.size(); ++i)
          CHECK(relative_difference(got[i], wanted[i]) <= 1e-13);
      }
    }
  });
}

TEST_CASE("dropout_add_layer_norm on cuda does not depend on where the memory begins") {
  on_cuda_device([] {
    const Problem p({5, 16, 0.3}, DType::kBF16, true);
    const auto aligned = p.forward(Device::cuda());
    // One element further on: no whole packs.
    const auto shifted = [](const Tensor& t) {
      Tensor longer = Tensor::zeros({t.numel() + 1}, t.dtype(), Device::cuda());
      Tensor rest = longer.slice(1, t.numel() + 1);
      ops::copy(to_cuda(t).reshape({t.numel()}), rest);
      return rest.reshape(t.shape());
    };
    const auto got = ops::dropout_add_layer_norm(shifted(p.x), shifted(p.residual), 16, p.mask,
                                                 to_cuda(p.x_bias), to_cuda(p.weight),
                                                 to_cuda(p.bias), 1e-5, true);
    CHECK(relative_difference(to_cpu(got.sum), to_cpu(aligned.sum)) == 0);
    // The lanes add up other elements.
    CHECK(relative_difference(to_cpu(got.y), to_cpu(aligned.y)) <= 8e-3);
  });
}

TEST_CASE("dropout_add_layer_norm on cuda: a mean that is large beside the deviation") {
  on_cuda_device([] {
    const Tensor x = random_tensor({3, 300}, 1, 500, 501, DType::kF32);
    const Tensor r = random_tensor({3, 300}, 2, 500, 500.5, DType::kF32);
    const auto wanted = ops::dropout_add_layer_norm(x, r, 300, {}, {}, {}, {}, 1e-5, true);
    const auto got =
        ops::dropout_add_layer_norm(to_cuda(x), to_cuda(r), 300, {}, {}, {}, {}, 1e-5, true);
    // The mean is rounded to 6e-5, one part in 5000 of the deviation.
    CHECK(relative_difference(to_cpu(got.rstd), wanted.rstd) <= 1e-4);
    CHECK(relative_difference(to_cpu(got.y), wanted.y) <= 3e-4);
    // Rows of one value: what is left of them is the rounding of the mean, times 1 / sqrt(eps).
    const Tensor same = ops::full({2, 37}, 0.1, DType::kF32);
    const auto flat =
        ops::dropout_add_layer_norm(to_cuda(same), to_cuda(same), 37, {}, {}, {}, {}, 1e-5, true);
    for (const float v : to_cpu(flat.y).to_vector<float>()) CHECK(std::fabs(v) <= 1e-5);
  });
}

}  // namespace
}  // namespace lockstep

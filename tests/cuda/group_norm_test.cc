#include "lockstep/tensor/ops/group_norm.h"

#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <string>

namespace lockstep {
namespace {

using namespace testing;

struct Case {
  Shape x;
  GroupNormExtents extents;
};

/// Layer normalisation by warps and by blocks, with rows at multiples of 16 bytes and not; groups
/// whose elements lie together and apart.
const Case kCases[] = {
    {{9, 1}, {9, 1, 1, 1}},        {{3, 7}, {3, 1, 7, 1}},       {{130, 40}, {130, 1, 40, 1}},
    {{2, 2101}, {2, 1, 2101, 1}},  {{2, 3, 3, 6}, {2, 9, 6, 1}}, {{2, 3, 3, 6}, {2, 9, 6, 3}},
    {{2, 50, 48}, {2, 50, 48, 1}}, {{1, 5, 4}, {1, 5, 4, 4}},    {{3, 12}, {3, 1, 12, 4}},
    {{0, 5, 4}, {0, 5, 4, 2}},
};

double tolerance(DType dtype) {
  // Sums of up to 2400 in another order; bf16 rounds the result.
  return dtype == DType::kF64 ? 1e-13 : dtype == DType::kF32 ? 1e-5 : 8e-3;
}
double statistics_tolerance(DType dtype) { return dtype == DType::kF64 ? 1e-13 : 1e-5; }

TEST_CASE("layer and group normalisation on cuda equal the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Case& c : kCases) {
        for (const bool affine : {false, true}) {
          INFO(std::string(name_of(dtype)), " ", c.x.to_string(), " in ", c.extents.groups,
               " groups, affine ", affine);
          const DType of_sums = dtype == DType::kBF16 ? DType::kF32 : dtype;
          const int64_t channels = c.extents.channels;
          const Tensor x = random_tensor(c.x, 1, -1, 3, dtype);
          const Tensor weight = affine ? random_tensor({channels}, 2, 0.5, 2, of_sums) : Tensor();
          const Tensor bias = affine ? random_tensor({channels}, 3, -1, 1, of_sums) : Tensor();
          const auto on_gpu = [](const Tensor& t) { return t.defined() ? to_cuda(t) : t; };
          const auto wanted = ops::group_norm(x, c.extents, weight, bias, 1e-5);
          const auto got =
              ops::group_norm(to_cuda(x), c.extents, on_gpu(weight), on_gpu(bias), 1e-5);
          CHECK(relative_difference(to_cpu(got.y), wanted.y) <= tolerance(dtype));
          CHECK(relative_difference(to_cpu(got.mean), wanted.mean) <= statistics_tolerance(dtype));
          CHECK(relative_difference(to_cpu(got.rstd), wanted.rstd) <= statistics_tolerance(dtype));

          if (channels == 1) continue;  // the gradient is 0 but for rounding
          const Tensor grad = random_tensor(c.x, 4, -1, 1, dtype);
          const Tensor before = random_tensor(c.x, 5, -1, 1, dtype);
          for (const bool accumulate : {false, true}) {
            Tensor sums = Tensor::empty({2, channels}, of_sums);
            Tensor sums_got = Tensor::empty({2, channels}, of_sums, Device::cuda());
            const Tensor grad_wanted = into(Device::cpu(), before, accumulate, [&](const Dest& d) {
              ops::group_norm_backward(grad, x, c.extents, weight, wanted.mean, wanted.rstd, d,
                                       sums);
            });
            const Tensor grad_got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
              ops::group_norm_backward(to_cuda(grad), to_cuda(x), c.extents, on_gpu(weight),
                                       got.mean, got.rstd, d, sums_got);
            });
            CHECK(relative_difference(grad_got, grad_wanted) <= tolerance(dtype));
            CHECK(relative_difference(to_cpu(sums_got), sums) <= statistics_tolerance(dtype));
          }
        }
      }
    }
  });
}

TEST_CASE("layer normalisation on cuda: only the gradients that are wanted") {
  on_cuda_device([] {
    const Tensor x = random_tensor({5, 8}, 1), grad = random_tensor({5, 8}, 2);
    const GroupNormExtents extents{5, 1, 8, 1};
    const auto forward = ops::group_norm(x, extents, {}, {}, 1e-5);
    Tensor sums = Tensor::empty({2, 8}, DType::kF64);
    Tensor sums_got = Tensor::empty({2, 8}, DType::kF64, Device::cuda());
    Tensor none;
    ops::group_norm_backward(grad, x, extents, {}, forward.mean, forward.rstd, {}, sums);
    const auto backward_on_gpu = [&](const Dest& d, Tensor& s) {
      ops::group_norm_backward(to_cuda(grad), to_cuda(x), extents, {}, to_cuda(forward.mean),
                               to_cuda(forward.rstd), d, s);
    };
    backward_on_gpu({}, sums_got);
    CHECK(relative_difference(to_cpu(sums_got), sums) <= 1e-14);
    const Tensor wanted = into(Device::cpu(), x, false, [&](const Dest& d) {
      ops::group_norm_backward(grad, x, extents, {}, forward.mean, forward.rstd, d, none);
    });
    const Tensor got =
        into(Device::cuda(), x, false, [&](const Dest& d) { backward_on_gpu(d, none); });
    CHECK(relative_difference(got, wanted) <= 1e-13);
  });
}

TEST_CASE("layer normalisation on cuda: a mean that is large beside the deviation does no harm") {
  on_cuda_device([] {
    const Tensor x = random_tensor({3, 300}, 1, 1000, 1001, DType::kF32);
    const GroupNormExtents extents{3, 1, 300, 1};
    const auto wanted = ops::group_norm(x, extents, {}, {}, 1e-5);
    const auto got = ops::group_norm(to_cuda(x), extents, {}, {}, 1e-5);
    // The mean is rounded to 6e-5, one part in 5000 of the deviation.
    CHECK(relative_difference(to_cpu(got.rstd), wanted.rstd) <= 1e-4);
    CHECK(relative_difference(to_cpu(got.y), wanted.y) <= 3e-4);
  });
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/ops/pool.h"

#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

namespace lockstep {
namespace {

using namespace testing;

struct Case {
  Shape x;
  Pool2dOptions options;
};

// Channels by ones and by packs, windows that overlap and that leave gaps, indexes of four bytes.
const Case kCases[] = {
    {{2, 5, 6, 3}, {}},
    {{2, 9, 8, 16}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {{1, 7, 9, 8}, {.kernel = {2, 3}, .stride = {3, 1}, .padding = {0, 1}}},
    {{1, 18, 17, 8}, {.kernel = {17, 16}, .stride = {1, 1}, .padding = {3, 0}}},
    {{1, 1, 1, 1}, {.kernel = {1, 1}, .stride = {1, 1}}},
    {{0, 4, 4, 2}, {}},
};

double tolerance(DType dtype) {
  return dtype == DType::kF64 ? 1e-14 : dtype == DType::kF32 ? 2e-6 : 8e-3;
}

TEST_CASE("max_pool2d on cuda equals the CPU's to the bit, with its positions") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Case& c : kCases) {
        INFO(std::string(name_of(dtype)), " ", c.x.to_string());
        const Tensor x = random_tensor(c.x, 1, -1, 1, dtype);
        const auto wanted = ops::max_pool2d(x, c.options);
        const auto got = ops::max_pool2d(to_cuda(x), c.options);
        CHECK(relative_difference(to_cpu(got.y), wanted.y) == 0);
        const bool bytes = wanted.argmax.dtype() == DType::kU8;
        const Tensor positions = to_cpu(got.argmax);
        CHECK((bytes ? positions.to_vector<uint8_t>() == wanted.argmax.to_vector<uint8_t>()
                     : positions.to_vector<int32_t>() == wanted.argmax.to_vector<int32_t>()));
        const Tensor grad = random_tensor(wanted.y.shape(), 2, -1, 1, dtype);
        const Tensor before = random_tensor(c.x, 3, -1, 1, dtype);
        for (const bool accumulate : {false, true}) {
          const Tensor grad_wanted = into(Device::cpu(), before, accumulate, [&](const Dest& d) {
            ops::max_pool2d_backward(grad, wanted.argmax, c.options, d);
          });
          const Tensor grad_got = into(Device::cuda(), before, accumulate, [&](const Dest& d) {
            ops::max_pool2d_backward(to_cuda(grad), got.argmax, c.options, d);
          });
          CHECK(relative_difference(grad_got, grad_wanted) <= tolerance(dtype));
        }
      }
    }
  });
}

TEST_CASE("max_pool2d on cuda: a NaN wins, and of equal ones the first") {
  on_cuda_device([] {
    const Tensor x = Tensor::from<float>({1, 1, 0, NAN, 1, 0, 7, NAN}, {1, 2, 4, 1});
    const auto got = ops::max_pool2d(to_cuda(x), {});
    CHECK(to_cpu(got.y).to_vector<float>()[0] == 1);
    CHECK(std::isnan(to_cpu(got.y).to_vector<float>()[1]));
    CHECK(to_cpu(got.argmax).to_vector<uint8_t>() == std::vector<uint8_t>{0, 1});
  });
}

TEST_CASE("avg_pool2d and global_avg_pool2d on cuda equal the CPU's, forward and backward") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      for (const Case& c : kCases) {
        INFO(std::string(name_of(dtype)), " ", c.x.to_string());
        const Tensor x = random_tensor(c.x, 1, -1, 1, dtype);
        const Tensor y = ops::avg_pool2d(x, c.options);
        const Tensor whole = ops::global_avg_pool2d(x);
        CHECK(relative_difference(to_cpu(ops::avg_pool2d(to_cuda(x), c.options)), y) <=
              tolerance(dtype));
        CHECK(relative_difference(to_cpu(ops::global_avg_pool2d(to_cuda(x))), whole) <=
              tolerance(dtype));
        const Tensor grad = random_tensor(y.shape(), 2, -1, 1, dtype);
        const Tensor whole_grad = random_tensor(whole.shape(), 3, -1, 1, dtype);
        const Tensor before = random_tensor(c.x, 4, -1, 1, dtype);
        for (const bool accumulate : {false, true}) {
          const auto run_on = [&](Device device, const Tensor& g, const Tensor& w) {
            return into(device, before, accumulate, [&](const Dest& d) {
              ops::avg_pool2d_backward(g, c.options, d);
              ops::global_avg_pool2d_backward(w, {d.out, true});
            });
          };
          CHECK(relative_difference(run_on(Device::cuda(), to_cuda(grad), to_cuda(whole_grad)),
                                    run_on(Device::cpu(), grad, whole_grad)) <= tolerance(dtype));
        }
      }
    }
  });
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/ops/layout.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

constexpr DType kAll[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kI64,
                          DType::kI32, DType::kU8,  DType::kF16};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.nbytes() == 0 || std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0);
}

/// Bytes of every kind: NaNs with payloads, subnormals, negative integers.
Tensor any_bits(const Shape& shape, DType dtype, uint64_t seed) {
  Tensor x = Tensor::empty(shape, dtype);
  const PhiloxRange range = Generator(seed).take(static_cast<int64_t>(x.nbytes()));
  std::byte* at = x.mutable_raw();
  for (size_t i = 0; i < x.nbytes(); ++i)
    at[i] = static_cast<std::byte>(range.bits(static_cast<int64_t>(i)) & 0xff);
  return x;
}

TEST_CASE("concat and take_part on cuda move every bit of every dtype") {
  on_cuda_device([] {
    for (const DType dtype : kAll) {
      for (const int64_t inner : {1, 3, 16}) {
        for (int dim = 0; dim < 3; ++dim) {
          INFO(name_of(dtype), " inner ", inner, " dim ", dim);
          const Shape shape = {4, 5, inner};
          const std::vector<Tensor> parts = {any_bits(shape, dtype, 1),
                                             any_bits(shape.with_dim(dim, 0), dtype, 2),
                                             any_bits(shape.with_dim(dim, 7), dtype, 3)};
          std::vector<Tensor> on_cuda;
          for (const Tensor& part : parts) on_cuda.push_back(to_cuda(part));
          const Tensor whole = ops::concat(parts, dim);
          CHECK(same_bits(to_cpu(ops::concat(on_cuda, dim)), whole));
          Tensor got = Tensor::empty(parts[2].shape(), dtype, Device::cuda());
          ops::take_part(to_cuda(whole), dim, shape[dim], {got});
          CHECK(same_bits(to_cpu(got), parts[2]));
        }
      }
    }
  });
}

TEST_CASE("permute on cuda moves every bit of every dtype") {
  struct Case {
    Shape shape;
    std::vector<int> dims;
  };
  on_cuda_device([] {
    for (const Case& c : std::vector<Case>{{{}, {}},
                                           {{7}, {0}},
                                           {{0, 3}, {1, 0}},
                                           {{1, 40}, {1, 0}},
                                           {{33, 70}, {1, 0}},
                                           {{64, 32}, {1, 0}},
                                           {{2, 9, 10, 3}, {0, 3, 1, 2}},   // thin
                                           {{2, 9, 11, 40}, {0, 3, 1, 2}},  // NHWC to NCHW
                                           {{3, 12, 2, 16}, {0, 2, 1, 3}},  // heads
                                           {{3, 4, 9, 8}, {3, 2, 1, 0}},
                                           {{2, 3, 2, 5, 8}, {2, 0, 3, 1, 4}}}) {
      for (const DType dtype : kAll) {
        INFO(name_of(dtype), " ", c.shape.to_string());
        const Tensor x = any_bits(c.shape, dtype, 1);
        CHECK(same_bits(to_cpu(ops::permute(to_cuda(x), c.dims)), ops::permute(x, c.dims)));
      }
    }
  });
}

TEST_CASE("parts and transposes are added on cuda as on the CPU") {
  on_cuda_device([] {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
      const Tensor x = random_tensor({35, 48}, 1, -1, 1, dtype);
      const Tensor part = random_tensor({35, 16}, 2, -1, 1, dtype);
      const Tensor turned = random_tensor({48, 35}, 3, -1, 1, dtype);
      const auto same = [](const Tensor& before, auto&& fn) {
        const Tensor wanted = into(Device::cpu(), before, true, [&](const Dest& d) {
          fn([](const Tensor& t) { return t; }, d);
        });
        const Tensor got =
            into(Device::cuda(), before, true, [&](const Dest& d) { fn(to_cuda, d); });
        return same_bits(got, wanted);
      };
      for (const int64_t begin : {0, 3, 16}) {
        CHECK(same(part, [&](auto&& on, const Dest& d) { ops::take_part(on(x), 1, begin, d); }));
      }
      CHECK(same(turned, [&](auto&& on, const Dest& d) { ops::permute_to(on(x), {1, 0}, d); }));
      CHECK(same(x, [&](auto&& on, const Dest& d) { ops::permute_to(on(x), {0, 1}, d); }));
      CHECK(
          same(x, [&](auto&& on, const Dest& d) { ops::slice_backward(on(x.slice(3, 9)), 3, d); }));
    }
    Tensor i64 = Tensor::zeros({2, 2}, DType::kI64, Device::cuda());
    CHECK_THROWS_AS(ops::permute_to(i64, {1, 0}, {i64, true}), ArgumentError);
  });
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/tensor.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace lockstep {
namespace {

TEST_CASE("tensor: made, read and written") {
  Tensor t = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  CHECK(t.dtype() == DType::kF32);
  CHECK(t.nbytes() == 24);
  CHECK(t.dim(-1) == 3);
  CHECK(t.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5, 6});
  CHECK(Tensor::zeros({2}, DType::kI64).to_vector<int64_t>() == std::vector<int64_t>{0, 0});
  CHECK(Tensor::from<uint8_t>({7}, {}).item() == 7);
  CHECK(Tensor::from<bf16>({bf16(-2.5f)}, {1, 1}).item() == -2.5);
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kI32, DType::kU8,
                      DType::kF16}) {
    const Tensor x = Tensor::empty({3, 5}, dtype);
    CHECK(x.nbytes() == 15 * size_of(dtype));
    CHECK(reinterpret_cast<uintptr_t>(x.raw()) % 256 == 0);
  }
  CHECK(Tensor::empty({0, 4}, DType::kF32).to_vector<float>().empty());
}

TEST_CASE("tensor: views share memory, and versions") {
  Tensor t = Tensor::zeros({4, 3}, DType::kF32);
  CHECK(t.unique());
  Tensor rows = t.slice(1, 3);
  Tensor flat = t.reshape({-1});
  CHECK(!t.unique());
  CHECK(rows.shape() == Shape{2, 3});
  CHECK(flat.shape() == Shape{12});
  CHECK(rows.shares_memory(t));
  CHECK(!rows.shares_memory(Tensor::zeros({4, 3}, DType::kF32)));
  const uint64_t before = t.version();
  rows.mutable_data<float>()[0] = 5;
  CHECK(t.data<float>()[3] == 5);
  CHECK(t.version() > before);
  CHECK(flat.version() == t.version());
  const uint64_t after = t.version();
  CHECK(flat.slice(3, 4).item() == 5);
  CHECK(rows.slice(1, 2).data<float>() == t.data<float>() + 6);
  CHECK(t.slice(4, 4).numel() == 0);
  CHECK(t.version() == after);  // reading changes nothing
}

TEST_CASE("tensor: memory outlives the handle it was made with") {
  Tensor rows;
  {
    const Tensor t = Tensor::from<int32_t>({1, 2, 3, 4}, {2, 2});
    rows = t.slice(1, 2);
  }
  CHECK(rows.unique());
  CHECK(rows.to_vector<int32_t>() == std::vector<int32_t>{3, 4});
}

TEST_CASE("tensor: wrong uses are refused") {
  const Tensor t = Tensor::zeros({2, 3}, DType::kF32);
  CHECK_THROWS_WITH_AS(t.data<double>(), doctest::Contains("f32, asked for as f64"), ArgumentError);
  CHECK_THROWS_AS(t.reshape({5}), ArgumentError);
  CHECK_THROWS_AS(t.reshape({4, -1}), ArgumentError);
  CHECK_THROWS_WITH_AS(t.reshape({-1, -1}), doctest::Contains("only one"), ArgumentError);
  CHECK_THROWS_AS(t.slice(0, 3), ArgumentError);
  CHECK_THROWS_AS(t.slice(-1, 1), ArgumentError);
  CHECK_THROWS_AS(t.slice(2, 1), ArgumentError);
  CHECK_THROWS_AS(t.item(), ArgumentError);
  CHECK_THROWS_AS(Tensor::from<float>({1, 2}, {3}), ArgumentError);
  CHECK_THROWS_AS(Tensor().raw(), ArgumentError);
  // 2^64 bytes, which a size_t counts as none.
  CHECK_THROWS_WITH_AS(Tensor::empty({int64_t{1} << 62}, DType::kF32),
                       doctest::Contains("2^62 bytes"), ArgumentError);
  char byte = 0;
  CHECK_THROWS_AS(Tensor::borrow(&byte, {int64_t{1} << 62}, DType::kF32), ArgumentError);
  CHECK_THROWS_AS(Tensor::zeros({}, DType::kF32).slice(0, 0), ArgumentError);
  CHECK_THROWS_AS(Tensor::empty({1}, DType::kF32, Device::cuda()),
                  UnsupportedError);  // none is linked in
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/arena.h"

#include <doctest/doctest.h>

#include <vector>

namespace lockstep {
namespace {

TEST_CASE("slices begin at multiples of 256 bytes, in the given order") {
  const std::vector<int64_t> numels{1, 64, 65, 0, 3};
  const ArenaLayout f32 = arena_layout(numels, DType::kF32);
  CHECK(f32.offsets == std::vector<int64_t>{0, 64, 128, 256, 256});
  CHECK(f32.numel == 320);
  const ArenaLayout f64 = arena_layout(numels, DType::kF64);
  CHECK(f64.offsets == std::vector<int64_t>{0, 32, 96, 192, 192});
  CHECK(f64.numel == 224);
  CHECK(arena_layout({}, DType::kF32).numel == 0);
}

TEST_CASE("views share the arena's memory and are aligned") {
  const std::vector<int64_t> numels{6, 2};
  const ArenaLayout layout = arena_layout(numels, DType::kF32);
  Tensor arena = Tensor::zeros({layout.numel}, DType::kF32);
  Tensor first = arena_view(arena, layout.offsets[0], {2, 3});
  Tensor second = arena_view(arena, layout.offsets[1], {2});
  CHECK(first.shares_memory(arena));
  CHECK(first.shape() == Shape{2, 3});
  CHECK(reinterpret_cast<uintptr_t>(second.raw()) % kArenaAlignment == 0);
  second.mutable_data<float>()[1] = 7;
  CHECK(arena.data<float>()[65] == 7);
}

TEST_CASE("neighbours are seen as one, padding included") {
  Tensor arena = Tensor::zeros({128}, DType::kF32);
  Tensor first = arena_view(arena, 0, {2, 3});
  const Tensor second = arena_view(arena, 64, {2});
  Tensor both = first.through(second);
  CHECK(both.shape() == Shape{66});
  both.mutable_data<float>()[65] = 3;
  CHECK(second.data<float>()[1] == 3);
  CHECK_THROWS_AS(second.through(first), ArgumentError);
  CHECK_THROWS_AS(first.through(Tensor::zeros({2}, DType::kF32)), ArgumentError);
}

TEST_CASE("what does not fit is refused") {
  const std::vector<int64_t> negative{1, -1};
  CHECK_THROWS_AS(arena_layout(negative, DType::kF32), ArgumentError);
  const std::vector<int64_t> huge{int64_t{1} << 57, int64_t{1} << 58};
  CHECK_THROWS_WITH_AS(arena_layout(huge, DType::kF32), doctest::Contains("overflow"),
                       ArgumentError);
  const Tensor arena = Tensor::zeros({64}, DType::kF32);
  CHECK_THROWS_AS(arena_view(arena, 60, {5}), ArgumentError);
  CHECK_THROWS_AS(arena_view(arena, -1, {5}), ArgumentError);
  CHECK_THROWS_AS(arena_view(arena.reshape({8, 8}), 0, {5}), ArgumentError);
}

}  // namespace
}  // namespace lockstep

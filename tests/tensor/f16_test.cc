#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/tensor/f16_arrays.h"
#include "lockstep/tensor/ops/conv.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/elementwise.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace lockstep {
namespace {

constexpr int kPatterns = 0x10000;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

f16 of_bits(int bits) {
  f16 value;
  value.bits = static_cast<uint16_t>(bits);
  return value;
}

// From the definition, in doubles: (-1)^s 2^(e - 25) (1024 + m), or 2^-24 m for e = 0.
double defined(int bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::nan("") : sign * kInfinity;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

// Its own way to the nearest: between the two neighbours by their distances, ties to the even one.
int nearest(float value) {
  const double magnitude = std::fabs(static_cast<double>(value));
  const int sign = std::signbit(value) ? 0x8000 : 0;
  int low = 0;  // the largest that is not above it, by bisection among the finite ones
  for (int high = 0x7c00; high - low > 1;) {
    const int middle = (low + high) / 2;
    (defined(middle) <= magnitude ? low : high) = middle;
  }
  // What would follow the largest finite one is 65536, where infinity stands.
  const double above = low == 0x7bff ? 65536.0 : defined(low + 1);
  const double to_low = magnitude - defined(low);
  const double to_high = above - magnitude;
  return sign | (to_low < to_high || (to_low == to_high && low % 2 == 0) ? low : low + 1);
}

// A sample of all floats: of every exponent, and close to every value of f16 and every middle.
std::vector<float> floats() {
  std::vector<float> values = {0.0f,     -0.0f,         kInfinity,    -kInfinity,
                               65504.0f, 65519.996f,    65520.0f,     65536.0f,
                               1e-45f,   2.9802322e-8f, 2.9802326e-8f};
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const auto exact = static_cast<float>(defined(bits));
    const auto middle = static_cast<float>((defined(bits) + defined(bits + 1)) / 2);
    for (const float v : {exact, middle}) {
      if (std::isinf(v)) continue;
      for (const float near : {v, std::nextafter(v, kInfinity), std::nextafter(v, -kInfinity)}) {
        values.push_back(near);
        values.push_back(-near);
      }
    }
  }
  std::mt19937 random(1);
  while (values.size() < 300'000) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

TEST_CASE("f16: each of the 65536 is what the definition says, and survives the way back") {
  static_assert(f16(1.0f).bits == 0x3c00 && static_cast<float>(f16(-2.0f)) == -2.0f);
  for (int bits = 0; bits < kPatterns; ++bits) {
    const auto wide = static_cast<float>(of_bits(bits));
    const double wanted = defined(bits);
    if (std::isnan(wanted)) {
      // Quiet, with its sign and payload.
      if (!std::isnan(wide) || f16(wide).bits != (bits | 0x200)) FAIL("NaN ", bits);
    } else if (wide != wanted || std::signbit(wide) != (bits >> 15 != 0) ||
               f16(wide).bits != bits) {
      FAIL(bits, " is ", wide, ", wanted ", wanted, "; back ", f16(wide).bits);
    }
  }
}

TEST_CASE("f16: rounds to nearest, ties to even, at every value and every middle") {
  for (const float value : floats()) {
    if (f16(value).bits != nearest(value)) {
      FAIL(value, " became ", f16(value).bits, ", wanted ", nearest(value));
    }
  }
}

TEST_CASE("f16: a NaN stays one, whatever its bits") {
  for (uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0x7f802000u, 0xffffffffu}) {
    CHECK(std::isnan(static_cast<float>(f16(std::bit_cast<float>(bits)))));
  }
}

TEST_CASE("f16: whole arrays have the bits of one after the other") {
  std::vector<f16> all;
  for (int bits = 0; bits < kPatterns; ++bits) all.push_back(of_bits(bits));
  all.push_back(f16(3.0f));  // a length that eight does not divide
  std::vector<float> wide(all.size());
  to_floats(all.data(), wide.data(), static_cast<int64_t>(all.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    const auto wanted = std::bit_cast<uint32_t>(static_cast<float>(all[i]));
    if (std::bit_cast<uint32_t>(wide[i]) != wanted) FAIL("f16 ", all[i].bits);
  }
  std::vector<float> values = floats();
  for (uint32_t nan = 0x7f800001u; nan < 0x7fffffffu; nan += 4097) {
    values.push_back(std::bit_cast<float>(nan));
  }
  std::vector<f16> narrow(values.size());
  from_floats(values.data(), narrow.data(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    if (narrow[i].bits != f16(values[i]).bits) FAIL("float ", values[i]);
  }
}

TEST_CASE("f16: made, copied, filled, cast to and from every other dtype") {
  CHECK(Tensor::zeros({3}, DType::kF16).to_vector<f16>()[2].bits == 0);
  CHECK(ops::full({5}, 0.1, DType::kF16).slice(3, 4).item() == defined(nearest(0.1f)));
  const Tensor x = testing::random_tensor({3, 1001}, 1, -100, 100, DType::kF32);
  const Tensor half = ops::cast(x, DType::kF16);
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (half.data<f16>()[i].bits != nearest(x.data<float>()[i])) FAIL("element ", i);
  }
  const Tensor again = ops::clone(half);
  CHECK(std::memcmp(again.raw(), half.raw(), half.nbytes()) == 0);
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kI32}) {
    CAPTURE(name_of(dtype));
    // By way of f32, which holds every f16.
    const Tensor wide = ops::cast(ops::cast(half, DType::kF32), dtype);
    const Tensor direct = ops::cast(half, dtype);
    CHECK(direct.dtype() == dtype);
    CHECK(std::memcmp(direct.raw(), wide.raw(), wide.nbytes()) == 0);
    const Tensor back = ops::cast(direct, DType::kF16);
    const Tensor through = ops::cast(ops::cast(direct, DType::kF32), DType::kF16);
    CHECK(std::memcmp(back.raw(), through.raw(), back.nbytes()) == 0);
    if (dtype == DType::kF64) CHECK(std::memcmp(back.raw(), half.raw(), half.nbytes()) == 0);
  }
}

TEST_CASE("f16: what computes refuses it and names itself") {
  Tensor x = Tensor::zeros({2, 2}, DType::kF16);
  const auto refuses = [](const char* op, auto&& fn) {
    CAPTURE(op);
    CHECK_THROWS_WITH_AS(fn(), doctest::Contains(op), ArgumentError);
    CHECK_THROWS_WITH_AS(fn(), doctest::Contains("f16"), ArgumentError);
  };
  refuses("scale: wanted f32", [&] { ops::scale(x, 2); });
  refuses("add_scaled: wanted f32", [&] { ops::add_scaled(ops::clone(x), 2, x); });
  refuses("matmul: wanted", [&] { matmul(Variable(x), Variable(x)); });
  refuses("conv2d: wanted", [&] {
    const Tensor image = x.reshape({1, 1, 1, 4});
    ops::conv2d(image, image, Tensor(), {});
  });
  refuses("set_requires_grad: a tensor of f16 has no gradient, f16 only stores; cast it",
          [&] { Variable(x).set_requires_grad(true); });
}

}  // namespace
}  // namespace lockstep

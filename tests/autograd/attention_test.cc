#include "lockstep/autograd/ops/attention.h"

#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/softmax.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

struct Sizes {
  int64_t batch, heads, queries, keys, width;
};

/// Sample 0 has a hole and an end of padding, sample 1 nothing but padding.
Tensor padding_of(int64_t batch, int64_t keys) {
  Tensor mask = Tensor::zeros({batch, keys}, DType::kU8);
  uint8_t* m = mask.mutable_data<uint8_t>();
  if (batch > 0 && keys > 2) m[1] = m[keys - 1] = 1;
  for (int64_t j = 0; batch > 1 && j < keys; ++j) m[keys + j] = 1;
  return mask;
}

std::vector<Tensor> operands(const Sizes& s, DType dtype = DType::kF64) {
  return {random_tensor({s.batch, s.heads, s.queries, s.width}, 1, -2, 2, dtype),
          random_tensor({s.batch, s.heads, s.keys, s.width}, 2, -2, 2, dtype),
          random_tensor({s.batch, s.heads, s.keys, s.width}, 3, -2, 2, dtype)};
}

TEST_CASE("attention: gradients, every mask, with and without dropout") {
  for (const Sizes& s : {Sizes{2, 2, 3, 5, 4}, Sizes{1, 1, 1, 1, 1}, Sizes{2, 1, 5, 3, 2},
                         Sizes{1, 2, 67, 6, 1}, Sizes{0, 2, 3, 3, 2}, Sizes{2, 1, 2, 70, 3}}) {
    for (const bool causal : {false, true}) {
      for (const bool padding : {false, true}) {
        for (const double p : {0.0, 0.4}) {
          CAPTURE(s.queries);
          CAPTURE(causal);
          CAPTURE(padding);
          CAPTURE(p);
          const AttentionOptions options{
              .causal = causal,
              .key_padding_mask = padding ? padding_of(s.batch, s.keys) : Tensor(),
              .dropout = p,
              .scale = p > 0 ? std::optional<double>(0.7) : std::nullopt};
          const auto fn = [&](const auto& v) {
            Generator rng(9);
            return scaled_dot_product_attention(v[0], v[1], v[2], 0, options, &rng);
          };
          CHECK(gradcheck(fn, operands(s)) == "");
        }
      }
    }
  }
}

TEST_CASE("attention: gradients when q, k and v are one variable, or side by side in one") {
  for (const bool causal : {false, true}) {
    const AttentionOptions options{.causal = causal, .key_padding_mask = padding_of(2, 5)};
    const auto same = [&](const auto& v) {
      return scaled_dot_product_attention(v[0], v[0], v[0], 3, options);
    };
    CHECK(gradcheck(same, {random_tensor({2, 5, 6}, 1)}) == "");
    const auto two = [&](const auto& v) {
      return scaled_dot_product_attention(v[0], v[1], v[1], 3, options);
    };
    CHECK(gradcheck(two, {random_tensor({2, 4, 6}, 1), random_tensor({2, 5, 6}, 2)}) == "");
    const auto packed = [&](const auto& v) { return packed_self_attention(v[0], 2, options); };
    CHECK(gradcheck(packed, {random_tensor({2, 5, 12}, 1)}) == "");
  }
}

/// The same from ops that keep everything: q, k, v [B, H, S, D], the mask added to the scores.
Variable in_steps(const Variable& q, const Variable& k, const Variable& v, const Tensor& allowed) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(3)));
  Variable scores = matmul(q, k, {.transpose_b = true});
  Tensor s = ops::clone(scores.data());
  ops::scale(s, scale);
  for (int64_t i = 0; i < s.numel(); ++i) {
    if (allowed.data<uint8_t>()[i] == 0) s.mutable_data<double>()[i] = -INFINITY;
  }
  return matmul(softmax(Variable(s), -1), v);
}

TEST_CASE("attention: equals softmax of products, in every layout") {
  const Sizes s{2, 3, 70, 70, 8};
  const auto x = operands(s);
  Tensor padding = Tensor::zeros({2, 70}, DType::kU8);
  for (int j : {3, 64, 69, 70 + 1, 70 + 69}) padding.mutable_data<uint8_t>()[j] = 1;
  Tensor allowed = Tensor::zeros({2, 3, 70, 70}, DType::kU8);
  for (int64_t i = 0; i < allowed.numel(); ++i) {
    const int64_t key = i % 70, query = i / 70 % 70, batch = i / (3 * 70 * 70);
    allowed.mutable_data<uint8_t>()[i] =
        key <= query && padding.data<uint8_t>()[batch * 70 + key] == 0;
  }
  const Variable q(x[0]), k(x[1]), v(x[2]);
  const Tensor expected = in_steps(q, k, v, allowed).data();
  const AttentionOptions options{.causal = true, .key_padding_mask = padding};
  CHECK(relative_difference(scaled_dot_product_attention(q, k, v, 0, options).data(), expected) <
        1e-13);
  const auto side_by_side = [](const Variable& y) {
    return reshape(permute(y, {0, 2, 1, 3}), {2, 70, 24});
  };
  const Tensor wide = side_by_side(Variable(expected)).data();
  const Variable flat_q = side_by_side(q), flat_k = side_by_side(k), flat_v = side_by_side(v);
  CHECK(relative_difference(scaled_dot_product_attention(flat_q, flat_k, flat_v, 3, options).data(),
                            wide) < 1e-13);
  CHECK(relative_difference(
            packed_self_attention(concat({flat_q, flat_k, flat_v}, 2), 3, options).data(), wide) <
        1e-13);
}

TEST_CASE("attention: dropout drops what its number of the stream says") {
  // With one-hot values the result is the matrix of probabilities.
  constexpr int64_t kKeys = 7;
  Tensor v = Tensor::zeros({1, 2, kKeys, kKeys}, DType::kF64);
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t j = 0; j < kKeys; ++j) v.mutable_data<double>()[(h * kKeys + j) * kKeys + j] = 1;
  }
  const Variable q(Tensor::zeros({1, 2, 3, kKeys}, DType::kF64));
  const Variable k(Tensor::zeros({1, 2, kKeys, kKeys}, DType::kF64));
  Generator rng(4);
  const PhiloxRange range = Generator(4).take(1);
  const Tensor p =
      scaled_dot_product_attention(q, k, Variable(v), 0, {.dropout = 0.25}, &rng).data();
  for (int64_t i = 0; i < p.numel(); ++i) {
    const bool kept = range.uniform(i / kKeys * 8 + i % kKeys) >= 0.25f;
    CHECK(p.data<double>()[i] == doctest::Approx(kept ? 1 / (0.75 * kKeys) : 0));
  }
  CHECK(rng.state().next_block == 2 * 3 * 8 / 4);
}

TEST_CASE("attention: a query that sees no key gives zeros, no gradient and no NaN") {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    const auto x = operands({2, 1, 3, 4, 2}, dtype);
    Variable q(x[0], true), k(x[1], true), v(x[2], true);
    const Variable y =
        scaled_dot_product_attention(q, k, v, 0, {.key_padding_mask = padding_of(2, 4)});
    y.backward(random_tensor(y.shape(), 5, -1, 1, dtype));
    for (const Tensor& t : {y.data(), *q.grad(), *k.grad(), *v.grad()}) {
      const auto values = ops::cast(t, DType::kF64).to_vector<double>();
      for (size_t i = 0; i < values.size(); ++i) {
        CHECK(std::isfinite(values[i]));
        if (i >= values.size() / 2) CHECK(values[i] == 0);
      }
      CHECK(values[0] != 0);
    }
  }
  // A causal query before the first key that counts.
  Tensor first = Tensor::zeros({1, 3}, DType::kU8);
  first.mutable_data<uint8_t>()[0] = 1;
  const auto x = operands({1, 1, 3, 3, 2}, DType::kF32);
  const auto y = scaled_dot_product_attention(Variable(x[0]), Variable(x[1]), Variable(x[2]), 0,
                                              {.causal = true, .key_padding_mask = first})
                     .data()
                     .to_vector<float>();
  CHECK(y[0] == 0);
  CHECK(y[2] == x[2].data<float>()[2]);
}

TEST_CASE("attention: a NaN is not hidden") {
  auto x = operands({1, 1, 2, 3, 2}, DType::kF32);
  for (int i = 0; i < 6; ++i) x[1].mutable_data<float>()[i] = NAN;
  const auto y = scaled_dot_product_attention(Variable(x[0]), Variable(x[1]), Variable(x[2]))
                     .data()
                     .to_vector<float>();
  for (float value : y) CHECK(std::isnan(value));
}

TEST_CASE("attention: f32 and bf16 agree with f64, with the same bits on any number of threads") {
  const int threads = omp_get_max_threads();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor qkv = random_tensor({3, 130, 96}, 1, -2, 2, dtype);
    const Tensor g = random_tensor({3, 130, 32}, 2, -1, 1, dtype);
    const auto run = [&](DType in) {
      Variable x(ops::cast(qkv, in), true);
      Generator rng(3);
      const Variable y = packed_self_attention(
          x, 4,
          {.causal = true, .key_padding_mask = Tensor::zeros({3, 130}, DType::kU8), .dropout = 0.1},
          &rng);
      y.backward(ops::cast(g, in));
      return std::vector<Tensor>{y.data(), *x.grad()};
    };
    const auto exact = run(DType::kF64);
    omp_set_num_threads(1);
    const auto single = run(dtype);
    omp_set_num_threads(3);
    const auto several = run(dtype);
    omp_set_num_threads(threads);
    for (size_t i = 0; i < exact.size(); ++i) {
      // f32: scores up to 20, whose rounding shows in the exponential; bf16: the results', and in
      // the gradient that of the result that backward reads.
      CHECK(relative_difference(single[i], exact[i]) < (dtype == DType::kF32 ? 1e-5 : 1e-2));
      CHECK(std::memcmp(single[i].raw(), several[i].raw(), single[i].nbytes()) == 0);
    }
  }
}

TEST_CASE("attention: keeps no probabilities; a warm call allocates nothing") {
  constexpr int64_t kRows = 512;
  Variable x(random_tensor({1, kRows, 3 * 8}, 1, -1, 1, DType::kF32), true);
  const size_t before = cpu_allocator().stats().bytes_in_use;
  {
    const Variable y = packed_self_attention(x, 2);
    // The result and the log-sum-exp; all probabilities would be 2 MiB.
    CHECK(cpu_allocator().stats().bytes_in_use - before < 64 * 1024);
    y.backward(y.data());
  }
  x.zero_grad();
  const uint64_t misses = cpu_allocator().stats().misses;
  const Variable y = packed_self_attention(x, 2);
  y.backward(y.data());
  CHECK(cpu_allocator().stats().misses == misses);
}

TEST_CASE("attention: what does not fit is refused") {
  const auto of = [](const Shape& shape, DType dtype = DType::kF32) {
    return Variable(Tensor::zeros(shape, dtype));
  };
  const auto refused = [](const auto& call, const char* what) {
    CAPTURE(what);
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), ArgumentError);
  };
  const Variable x = of({2, 3, 8});
  refused([&] { scaled_dot_product_attention(x, x, x, 3); }, "3 heads do not divide a width of 8");
  refused([&] { scaled_dot_product_attention(x, x, x); }, "0 heads");
  refused([&] { scaled_dot_product_attention(x, x, of({2, 4, 8}), 2); }, "k and v of one shape");
  refused([&] { scaled_dot_product_attention(x, of({1, 3, 8}), of({1, 3, 8}), 2); }, "wanted q");
  refused([&] { scaled_dot_product_attention(x, of({2, 3, 4}), of({2, 3, 4}), 2); }, "wanted q");
  refused([&] { scaled_dot_product_attention(of({2, 2, 3, 4}), x, x, 2); }, "heads 0");
  refused([&] { scaled_dot_product_attention(of({8}), of({8}), of({8}), 2); }, "wanted q");
  refused([&] { scaled_dot_product_attention(x, x, of({2, 3, 8}, DType::kF64), 2); }, "one dtype");
  refused([&] { packed_self_attention(x, 2); }, "[B, S, 3 * H * D]");
  const Variable qkv = of({2, 3, 24});
  const auto masked = [&](const Tensor& mask) {
    return [&qkv, mask] { packed_self_attention(qkv, 2, {.key_padding_mask = mask}); };
  };
  refused(masked(Tensor::zeros({2, 4}, DType::kU8)), "key_padding_mask of u8 [2, 3]");
  refused(masked(Tensor::zeros({2, 3}, DType::kF32)), "key_padding_mask");
  refused([&] { packed_self_attention(qkv, 2, {.dropout = 0.1}); }, "wants a generator");
  Generator rng(1);
  refused([&] { packed_self_attention(qkv, 2, {.dropout = 1.5}, &rng); }, "[0, 1]");
}

}  // namespace
}  // namespace lockstep

#include "lockstep/tensor/cuda/cublas/problem.h"

#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <vector>

namespace lockstep {
namespace {

using namespace cuda;
using testing::random_tensor;
using testing::relative_difference;

double element(const LtMatrix& m, const double* data, int64_t batch, int64_t row, int64_t column) {
  if (m.transpose) std::swap(row, column);
  REQUIRE(row < m.rows);
  REQUIRE(column < m.cols);
  return data[batch * m.stride + column * m.rows + row];
}

/// What cuBLASLt computes from the description: column-major matrices and nothing else.
void column_major_product(const LtProduct& p, int64_t batch, const double* left,
                          const double* right, double* result) {
  REQUIRE(p.result.transpose == false);
  const int64_t inner = p.left.transpose ? p.left.rows : p.left.cols;
  for (int64_t i = 0; i < batch; ++i) {
    for (int64_t r = 0; r < p.result.rows; ++r) {
      for (int64_t c = 0; c < p.result.cols; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += element(p.left, left, i, r, k) * element(p.right, right, i, k, c);
        result[i * p.result.stride + c * p.result.rows + r] = sum;
      }
    }
  }
}

TEST_CASE("cublas: operands exchanged and read by columns give the product by rows") {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const auto& [batch_a, batch_b] :
           {std::pair<int64_t, int64_t>{0, 0}, {3, 3}, {3, 0}, {0, 3}}) {
        const auto stored = [](int64_t batch, int64_t rows, int64_t columns, bool transposed) {
          if (transposed) std::swap(rows, columns);
          return batch == 0 ? Shape({rows, columns}) : Shape({batch, rows, columns});
        };
        const Tensor a = random_tensor(stored(batch_a, 4, 7, transpose_a), 1);
        const Tensor b = random_tensor(stored(batch_b, 7, 5, transpose_b), 2);
        const Tensor wanted = ops::matmul(a, b, {transpose_a, transpose_b});
        const MatmulProblem problem{.batch = std::max<int64_t>({1, batch_a, batch_b}),
                                    .m = 4,
                                    .n = 5,
                                    .k = 7,
                                    .transpose_a = transpose_a,
                                    .transpose_b = transpose_b,
                                    .batched_a = batch_a > 0,
                                    .batched_b = batch_b > 0};
        Tensor got = Tensor::empty(wanted.shape(), DType::kF64);
        column_major_product(lt_product(problem), problem.batch, b.data<double>(), a.data<double>(),
                             got.mutable_data<double>());
        CHECK(relative_difference(got, wanted) <= 1e-15);
      }
    }
  }
}

TEST_CASE("cublas: the right operand's sums over k are the gradient of a linear layer's bias") {
  const Tensor grad_y = random_tensor({7, 4}, 1), x = random_tensor({7, 5}, 2);
  Tensor wanted = Tensor::empty({4}, DType::kF64), weight = Tensor::empty({4, 5}, DType::kF64);
  ops::sum_rows(grad_y, {wanted});
  ops::matmul(grad_y, x, {.transpose_a = true}, {weight});
  const LtProduct p = lt_product(weight_gradient(grad_y, x));
  CHECK(p.result.cols == 4);  // as many sums does the library write
  Tensor got = Tensor::empty({4, 5}, DType::kF64), sums = Tensor::zeros({4}, DType::kF64);
  column_major_product(p, 1, x.data<double>(), grad_y.data<double>(), got.mutable_data<double>());
  for (int64_t c = 0; c < 4; ++c) {
    for (int64_t k = 0; k < 7; ++k)
      sums.mutable_data<double>()[c] += element(p.right, grad_y.data<double>(), 0, k, c);
  }
  CHECK(relative_difference(got, weight) <= 1e-15);
  CHECK(relative_difference(sums, wanted) <= 1e-15);
  // In the product's type and where the library writes 16 bytes at once.
  CHECK(lt_sums(DType::kF32, DType::kF32, 16));
  CHECK_FALSE(lt_sums(DType::kF32, DType::kBF16, 256));
  CHECK_FALSE(lt_sums(DType::kF32, DType::kF32, 8));
}

TEST_CASE("cublas: what it is asked for") {
  using enum DType;
  const MatmulProblem p{.m = 2, .n = 3, .k = 4};
  CHECK(lt_takes(p, kF32, kF32, kF32));
  CHECK(lt_takes(p, kF64, kF64, kF64));
  CHECK(lt_takes(p, kBF16, kBF16, kF32));
  CHECK(lt_takes(p, kBF16, kF32, kBF16));
  CHECK_FALSE(lt_takes(p, kF32, kBF16, kF32));
  CHECK_FALSE(lt_takes(p, kF64, kF64, kF32));
  CHECK_FALSE(lt_takes(p, kF16, kF16, kF16));
  CHECK_FALSE(lt_takes({.m = 2, .n = 3, .k = 0}, kF32, kF32, kF32));
  CHECK_FALSE(lt_takes({.batch = int64_t{1} << 31, .m = 2, .n = 3, .k = 4}, kF32, kF32, kF32));
}

TEST_CASE("cublas: the alignment of an address") {
  CHECK(alignment_of(4096) == 256);
  CHECK(alignment_of(4096 + 256) == 256);
  CHECK(alignment_of(4096 + 16) == 16);
  CHECK(alignment_of(4096 + 48) == 16);
  CHECK(alignment_of(4098) == 2);
}

TEST_CASE("cublas: every property of a call makes another key") {
  const LtCall call{.problem = {.batch = 2, .m = 3, .n = 4, .k = 5}};
  std::vector<LtCall> others(14, call);
  others[0].problem.batch = 9;
  others[1].problem.m = 9;
  others[2].problem.n = 9;
  others[3].problem.k = 9;
  others[4].problem.transpose_a = true;
  others[5].problem.transpose_b = true;
  others[6].problem.batched_a = true;
  others[7].problem.batched_b = true;
  others[8].operands = DType::kBF16;
  others[9].out = DType::kBF16;
  others[10].epilogue = LtEpilogue::kBias;
  others[11].accumulate = true;
  others[12].tf32 = true;
  others[13].align_a = 16;
  others.push_back(call);
  others.back().align_b = 16;
  others.push_back(call);
  others.back().align_out = 16;
  others.push_back(call);
  others.back().epilogue = LtEpilogue::kSumsOfRight;
  for (size_t i = 0; i < others.size(); ++i) {
    CHECK(lt_key(others[i]) != lt_key(call));
    for (size_t j = 0; j < i; ++j) CHECK(lt_key(others[i]) != lt_key(others[j]));
  }
}

}  // namespace
}  // namespace lockstep

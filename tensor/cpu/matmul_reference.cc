#include "lockstep/tensor/cpu/matmul_reference.h"

#include "lockstep/tensor/cpu/parallel.h"

#include <algorithm>

namespace lockstep::cpu {
namespace {

// A tile of the result is kRows x kCols; its operands are packed kDepth deep, so that a tile's data
// (some 80 KiB in f64) stays in the second-level cache and the inner loops read contiguous memory
// whatever is transposed.
constexpr int64_t kRows = 32;
constexpr int64_t kCols = 64;
constexpr int64_t kDepth = 96;
// A register block: 4 x 8 accumulators.
constexpr int64_t kBlockRows = 4;
constexpr int64_t kBlockCols = 8;

/// A matrix and how to step through it: element (row, col) is data[row * row_step + col *
/// col_step].
template <class T>
struct Matrix {
  const T* data;
  int64_t row_step, col_step;
};

template <class C>
struct Tile {
  C a[kDepth * kRows];   // [depth][row]
  C b[kDepth * kCols];   // [depth][col]
  C sum[kRows * kCols];  // [row][col]
};

/// to[d][r] = element (row + r, first + d) for r < count, 0 for the rest up to `width`.
template <class T, class C>
void pack(Matrix<T> x, int64_t row, int64_t count, int64_t first, int64_t depth, int64_t width,
          C* to) {
  for (int64_t d = 0; d < depth; ++d) {
    const T* from = x.data + row * x.row_step + (first + d) * x.col_step;
    C* line = to + d * width;
    for (int64_t r = 0; r < count; ++r) line[r] = static_cast<C>(from[r * x.row_step]);
    std::fill(line + count, line + width, C(0));
  }
}

template <class C>
void multiply(int64_t rows, int64_t cols, int64_t depth, Tile<C>& tile) {
  for (int64_t i = 0; i < rows; i += kBlockRows) {
    for (int64_t j = 0; j < cols; j += kBlockCols) {
      C sum[kBlockRows][kBlockCols] = {};
      for (int64_t d = 0; d < depth; ++d) {
        const C* a = tile.a + d * kRows + i;
        const C* b = tile.b + d * kCols + j;
        for (int64_t r = 0; r < kBlockRows; ++r) {
          for (int64_t c = 0; c < kBlockCols; ++c) sum[r][c] += a[r] * b[c];
        }
      }
      for (int64_t r = 0; r < kBlockRows; ++r) {
        C* line = tile.sum + (i + r) * kCols + j;
        for (int64_t c = 0; c < kBlockCols; ++c) line[c] += sum[r][c];
      }
    }
  }
}

}  // namespace

void matmul_reference(const MatmulProblem& p, const Tensor& a, const Tensor& b, const Tensor& bias,
                      const Dest& out) {
  dispatch_floating(a.dtype(), "matmul", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* a_data = a.data<T>();
    const T* b_data = b.data<T>();
    const C* bias_data = bias.defined() ? bias.data<C>() : nullptr;
    Tensor target = out.out;
    C* y = target.mutable_data<C>();
    const int64_t tiles_m = (p.m + kRows - 1) / kRows;
    const int64_t tiles_n = (p.n + kCols - 1) / kCols;
    const int64_t work = kRows * kCols * std::max<int64_t>(p.k, 1);
    const auto tiles = [&](int64_t begin, int64_t end) {
      Tile<C> tile;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t batch = t / (tiles_m * tiles_n);
        const int64_t row = t / tiles_n % tiles_m * kRows;
        const int64_t col = t % tiles_n * kCols;
        const int64_t rows = std::min(kRows, p.m - row);
        const int64_t cols = std::min(kCols, p.n - col);
        const Matrix<T> left{a_data + (p.batched_a ? batch * p.m * p.k : 0),
                             p.transpose_a ? 1 : p.k, p.transpose_a ? p.m : 1};
        // Of b the packed lines run along its columns, so it is described transposed.
        const Matrix<T> right{b_data + (p.batched_b ? batch * p.k * p.n : 0),
                              p.transpose_b ? p.k : 1, p.transpose_b ? 1 : p.n};
        std::fill(std::begin(tile.sum), std::end(tile.sum), C(0));
        for (int64_t first = 0; first < p.k; first += kDepth) {
          const int64_t depth = std::min(kDepth, p.k - first);
          pack(left, row, rows, first, depth, kRows, tile.a);
          pack(right, col, cols, first, depth, kCols, tile.b);
          multiply(rows, cols, depth, tile);
        }
        for (int64_t r = 0; r < rows; ++r) {
          C* line = y + (batch * p.m + row + r) * p.n + col;
          for (int64_t c = 0; c < cols; ++c) {
            C value = tile.sum[r * kCols + c];
            if (bias_data != nullptr) value += bias_data[col + c];
            if (out.accumulate) value += line[c];
            line[c] = value;
          }
        }
      }
    };
    parallel_for(p.batch * tiles_m * tiles_n, std::max<int64_t>(1, kGrain * 8 / work), tiles);
  });
}

}  // namespace lockstep::cpu

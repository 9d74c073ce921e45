#include "lockstep/tensor/ops/matmul.h"

#include "lockstep/tensor/cuda/column_sums.h"
#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/tables.h"

#include <algorithm>

namespace lockstep::LOCKSTEP_GPU {
namespace {

constexpr int kTile = 16;
constexpr int64_t kMaxGridZ = 65535;

/// A block computes one 16 x 16 tile of the result from tiles of both operands in shared memory,
/// for the products blockIdx.z, blockIdx.z + gridDim.z, ... of the batch. An operand is loaded
/// along the direction in which it lies.
template <class T, class Out, class Bias>
__global__ void matmul_kernel(MatmulProblem p, const T* a, const T* b, const Bias* bias, Out* out,
                              bool accumulate) {
  using C = compute_t<T>;
  LOCKSTEP_SHARED(C, tile_a, [kTile][kTile + 1]);  // [row][k]; the odd pitch avoids bank conflicts
  LOCKSTEP_SHARED(C, tile_b, [kTile][kTile + 1]);  // [k][column]
  const int tx = static_cast<int>(threadIdx.x);
  const int ty = static_cast<int>(threadIdx.y);
  const int64_t across = (p.n + kTile - 1) / kTile;
  const int64_t row0 = blockIdx.x / across * kTile;
  const int64_t column0 = blockIdx.x % across * kTile;
  const int64_t row = row0 + ty;
  const int64_t column = column0 + tx;
  for (int64_t batch = blockIdx.z; batch < p.batch; batch += gridDim.z) {
    const T* one_a = a + (p.batched_a ? batch * p.m * p.k : 0);
    const T* one_b = b + (p.batched_b ? batch * p.k * p.n : 0);
    C sum = C(0);
    for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
      if (p.transpose_a) {  // neighbours in a are rows of the tile
        const bool inside = row0 + tx < p.m && k0 + ty < p.k;
        tile_a[tx][ty] = inside ? static_cast<C>(one_a[(k0 + ty) * p.m + row0 + tx]) : C(0);
      } else {
        const bool inside = row < p.m && k0 + tx < p.k;
        tile_a[ty][tx] = inside ? static_cast<C>(one_a[row * p.k + k0 + tx]) : C(0);
      }
      if (p.transpose_b) {  // neighbours in b are rows of the tile
        const bool inside = k0 + tx < p.k && column0 + ty < p.n;
        tile_b[tx][ty] = inside ? static_cast<C>(one_b[(column0 + ty) * p.k + k0 + tx]) : C(0);
      } else {
        const bool inside = k0 + ty < p.k && column < p.n;
        tile_b[ty][tx] = inside ? static_cast<C>(one_b[(k0 + ty) * p.n + column]) : C(0);
      }
      __syncthreads();
      for (int k = 0; k < kTile; ++k) sum += tile_a[ty][k] * tile_b[k][tx];
      __syncthreads();
    }
    if (row < p.m && column < p.n) {
      Out& target = out[(batch * p.m + row) * p.n + column];
      if (bias != nullptr) sum += static_cast<C>(bias[column]);
      target = Out(accumulate ? static_cast<C>(target) + sum : sum);
    }
  }
}

/// Calls fn with a zero of `dtype`, which is T or, where T is bf16, may be f32.
template <class T, class Fn>
void with_own_or_wide(DType dtype, Fn&& fn) {
  if (dtype == dtype_of<T>) return fn(T{});
  return fn(compute_t<T>{});
}

void matmul(const MatmulProblem& problem, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Dest& out) {
  // All tiles along x: a grid's y ends at 65,535, which a linear layer over many rows exceeds.
  const dim3 grid(blocks_for(problem.n, kTile) * blocks_for(problem.m, kTile), 1,
                  static_cast<unsigned>(std::min(problem.batch, kMaxGridZ)));
  Tensor target = out.out;
  dispatch_floating(a.dtype(), "matmul", [&](auto zero) {
    using T = decltype(zero);
    with_own_or_wide<T>(target.dtype(), [&](auto out_zero) {
      using Out = decltype(out_zero);
      with_own_or_wide<T>(bias.defined() ? bias.dtype() : a.dtype(), [&](auto bias_zero) {
        using Bias = decltype(bias_zero);
        launch(matmul_kernel<T, Out, Bias>, grid, dim3(kTile, kTile), problem, a.data<T>(),
               b.data<T>(), bias.defined() ? bias.data<Bias>() : nullptr,
               target.mutable_data<Out>(), out.accumulate);
      });
    });
  });
}

template <class T>
struct Element {
  const T* x;
  __device__ compute_t<T> operator()(int64_t i, int64_t) const {
    return static_cast<compute_t<T>>(x[i]);
  }
};

void sum_rows(const Tensor& x, const Dest& out) {
  dispatch_floating(x.dtype(), "sum_rows", [&](auto zero) {
    using T = decltype(zero);
    Tensor target = out.out;
    const int64_t columns = target.numel();
    with_own_or_wide<T>(target.dtype(), [&](auto out_zero) {
      using Out = decltype(out_zero);
      column_sums<compute_t<T>>(x.numel() / columns, columns, Element<T>{x.data<T>()},
                                target.mutable_data<Out>(), out.accumulate);
    });
  });
}

void linear_backward_weight(const Tensor& grad_y, const Tensor& x, const Dest& grad_weight,
                            const Dest& grad_bias) {
  sum_rows(grad_y, grad_bias);
  matmul(weight_gradient(grad_y, x), grad_y, x, Tensor(), grad_weight);
}

}  // namespace

const MatmulKernels kMatmul{
    .matmul = matmul, .sum_rows = sum_rows, .linear_backward_weight = linear_backward_weight};

}  // namespace lockstep::LOCKSTEP_GPU

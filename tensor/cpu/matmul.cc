#include "lockstep/tensor/ops/matmul.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/matmul_reference.h"
#include "lockstep/tensor/cpu/onednn/matmul.h"
#include "lockstep/tensor/cpu/parallel.h"
#include "lockstep/tensor/cpu/widen.h"

#include <algorithm>

namespace lockstep {
namespace {

void matmul(const MatmulProblem& problem, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Dest& out) {
  const bool fast = a.dtype() != DType::kF64 && problem.k > 0;
  if (fast && cpu::onednn::matmul(problem, a, b, bias, out)) return;
  if (a.dtype() != DType::kBF16) return cpu::matmul_reference(problem, a, b, bias, out);
  // bf16 on a processor without it: f32 is far faster than the reference, and rounds as late.
  const Tensor wide_bias = cpu::in_dtype(bias, DType::kF32);
  cpu::through(DType::kF32, out, [&](const Dest& wide) {
    if (!fast) return cpu::matmul_reference(problem, a, b, wide_bias, wide);
    matmul(problem, cpu::in_dtype(a, DType::kF32), cpu::in_dtype(b, DType::kF32), wide_bias, wide);
  });
}

template <class T, class Out>
void sum_rows(const T* in, int64_t rows, int64_t cols, Out* sums, bool add) {
  using C = compute_t<T>;
  // Threads divide the columns, so the order of addition does not depend on their number.
  constexpr int64_t kColumns = 128;
  const int64_t blocks = (cols + kColumns - 1) / kColumns;
  const int64_t grain = std::max<int64_t>(1, cpu::kGrain / (kColumns * std::max<int64_t>(rows, 1)));
  cpu::parallel_for(blocks, grain, [=](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kColumns;
      const int64_t count = std::min(kColumns, cols - first);
      C total[kColumns] = {};
      for (int64_t row = 0; row < rows; ++row) {
        const T* line = in + row * cols + first;
        for (int64_t c = 0; c < count; ++c) total[c] += static_cast<C>(line[c]);
      }
      for (int64_t c = 0; c < count; ++c)
        sums[first + c] = Out(add ? static_cast<C>(sums[first + c]) + total[c] : total[c]);
    }
  });
}

void sum_rows(const Tensor& x, const Dest& out) {
  Tensor target = out.out;
  dispatch_floating(x.dtype(), "sum_rows", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    if (target.dtype() == x.dtype()) {
      sum_rows(x.data<T>(), x.dim(0), x.dim(1), target.mutable_data<T>(), out.accumulate);
    } else {
      sum_rows(x.data<T>(), x.dim(0), x.dim(1), target.mutable_data<C>(), out.accumulate);
    }
  });
}

void linear_backward_weight(const Tensor& grad_y, const Tensor& x, const Dest& grad_weight,
                            const Dest& grad_bias) {
  sum_rows(grad_y, grad_bias);
  matmul(weight_gradient(grad_y, x), grad_y, x, Tensor(), grad_weight);
}

}  // namespace

const MatmulKernels kCpuMatmul{
    .matmul = matmul, .sum_rows = sum_rows, .linear_backward_weight = linear_backward_weight};

}  // namespace lockstep

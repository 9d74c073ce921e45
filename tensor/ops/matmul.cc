#include "lockstep/tensor/ops/matmul.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/cpu/onednn/matmul.h"
#include "lockstep/tensor/ops/check_device.h"
#include "lockstep/tensor/ops/copy.h"

#include <utility>

namespace lockstep::ops {
namespace {

int64_t batch_of(const Tensor& x) { return x.shape().numel(0, x.ndim() - 2); }

/// Whether sums of `operands` may be written as `result`.
bool holds(DType result, DType operands) {
  return result == operands || (operands == DType::kBF16 && result == DType::kF32);
}

Shape matrix(const Tensor& x) { return {x.dim(-2), x.dim(-1)}; }

/// Checks a and b against each other.
MatmulProblem problem_of(const Tensor& a, const Tensor& b, MatmulOptions options) {
  check(a.dtype() == b.dtype() && is_computable(a.dtype()),
        "matmul: wanted two operands of one dtype, f32, f64 or bf16, got ", name_of(a.dtype()),
        " and ", name_of(b.dtype()));
  check_device("matmul", a, b, "the second operand");
  check(a.ndim() >= 2 && b.ndim() >= 2, "matmul: wanted at least two dimensions each, got ",
        a.shape(), " and ", b.shape());
  MatmulProblem p{.batch = 1,
                  .m = a.dim(options.transpose_a ? -1 : -2),
                  .n = b.dim(options.transpose_b ? -2 : -1),
                  .k = a.dim(options.transpose_a ? -2 : -1),
                  .transpose_a = options.transpose_a,
                  .transpose_b = options.transpose_b,
                  .batched_a = a.ndim() > 2,
                  .batched_b = b.ndim() > 2};
  const int64_t k = b.dim(options.transpose_b ? -1 : -2);
  check(p.k == k, "matmul: the inner extents differ, ", p.k, " and ", k, ", of ", a.shape(),
        options.transpose_a ? " transposed" : "", " and ", b.shape(),
        options.transpose_b ? " transposed" : "");
  if (p.batched_a && p.batched_b) {
    bool equal = a.ndim() == b.ndim();
    for (int i = 0; equal && i < a.ndim() - 2; ++i) equal = a.dim(i) == b.dim(i);
    check(equal, "matmul: the leading dimensions of ", a.shape(), " and ", b.shape(),
          " differ; wanted equal ones, or none on one side");
  }
  p.batch = batch_of(p.batched_a ? a : b);
  return p;
}

/// The shape of the product: `matrix` under the leading dimensions of the batched operand.
Shape result_shape(const MatmulProblem& p, const Tensor& a, const Tensor& b) {
  const Shape& like = p.batched_a ? a.shape() : b.shape();
  return like.with_dim(-2, p.m).with_dim(-1, p.n);
}

void run(MatmulProblem p, const Tensor& a, const Tensor& b, const Tensor& bias, const Dest& out) {
  if (out.out.numel() == 0) return;
  if (p.batched_a && !p.batched_b && !p.transpose_a) {
    // Rows of all batches lie one after the other: one large product instead of many.
    p.m *= p.batch;
    p.batch = 1;
    p.batched_a = false;
  }
  backend(a.device()).matmul.matmul(p, a, b, bias, out);
}

/// out [m, n] (+)= the sum over the batch of op(a_i) op(b_i).
void run_summed(MatmulProblem p, const Tensor& a, const Tensor& b, Dest out) {
  if (out.out.numel() == 0) return;
  const bool stacked = (!p.batched_a || p.transpose_a) && (!p.batched_b || !p.transpose_b);
  const int64_t batch = std::exchange(p.batch, 1);
  if (stacked && p.batched_a && p.batched_b) {
    // The inner dimension is the outermost in memory, so the batch joins it.
    p.k *= batch;
    p.batched_a = p.batched_b = false;
    run(p, a, b, Tensor(), out);
    return;
  }
  if (batch == 0 && !out.accumulate) fill(out.out, 0.0);
  const auto each = [batch](const Tensor& x, bool batched, int64_t i) {
    if (!batched) return x;
    const Shape one = matrix(x);
    return x.reshape({batch, one[0], one[1]}).slice(i, i + 1).reshape(one);
  };
  const bool batched_a = std::exchange(p.batched_a, false);
  const bool batched_b = std::exchange(p.batched_b, false);
  for (int64_t i = 0; i < batch; ++i) {
    run(p, each(a, batched_a, i), each(b, batched_b, i), Tensor(), out);
    out.accumulate = true;
  }
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options) {
  const MatmulProblem p = problem_of(a, b, options);
  Tensor out = Tensor::empty(result_shape(p, a, b), a.dtype(), a.device());
  run(p, a, b, Tensor(), {out});
  return out;
}

void matmul(const Tensor& a, const Tensor& b, MatmulOptions options, const Dest& out) {
  const MatmulProblem p = problem_of(a, b, options);
  const Shape whole = result_shape(p, a, b);
  const Shape summed{p.m, p.n};
  check(holds(out.out.dtype(), a.dtype()), "matmul: a result of ", name_of(out.out.dtype()),
        " from operands of ", name_of(a.dtype()));
  check(out.out.shape() == whole || out.out.shape() == summed, "matmul: wanted a result of ", whole,
        ", or ", summed, " for the sum over the leading dimensions, got ", out.out.shape());
  if (out.out.shape() == whole) {
    run(p, a, b, Tensor(), out);
  } else {
    run_summed(p, a, b, out);
  }
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(x.ndim() >= 1 && weight.ndim() == 2 && x.dim(-1) == weight.dim(1), "linear: x ", x.shape(),
        " and weight ", weight.shape(), ": wanted [..., in] and [out, in]");
  const int64_t out = weight.dim(0);
  check(!bias.defined() || (bias.shape() == Shape{out} && holds(bias.dtype(), x.dtype())),
        "linear: wanted a bias of ", name_of(x.dtype()), " [", out, "]");
  if (bias.defined()) check_device("linear", x, bias, "the bias");
  Tensor y = Tensor::empty(x.shape().with_dim(-1, out), x.dtype(), x.device());
  const Tensor rows = x.reshape(Shape{x.shape().numel(0, x.ndim() - 1), x.dim(-1)});
  run(problem_of(rows, weight, {.transpose_b = true}), rows, weight, bias, {y});
  return y;
}

void sum_rows(const Tensor& x, const Dest& out) {
  check(x.ndim() >= 1 && out.out.shape() == Shape{x.dim(-1)} && holds(out.out.dtype(), x.dtype()),
        "sum_rows: from ", name_of(x.dtype()), " ", x.shape(), " to ", name_of(out.out.dtype()),
        " ", out.out.shape());
  if (out.out.numel() == 0) return;
  const Tensor rows = x.reshape(Shape{x.shape().numel(0, x.ndim() - 1), x.dim(-1)});
  backend(x.device()).matmul.sum_rows(rows, out);
}

void linear_backward_weight(const Tensor& grad_y, const Tensor& x, const Dest& grad_weight,
                            const Dest& grad_bias) {
  constexpr MatmulOptions kTransposed{.transpose_a = true};
  constexpr const char* kOp = "linear_backward_weight";
  const MatmulProblem p = problem_of(grad_y, x, kTransposed);
  check(grad_y.ndim() == 2 && x.ndim() == 2 && grad_weight.out.shape() == Shape{p.m, p.n} &&
            grad_bias.out.shape() == Shape{p.m},
        kOp, ": from grad_y ", grad_y.shape(), " and x ", x.shape(), " to ",
        grad_weight.out.shape(), " and ", grad_bias.out.shape(),
        ": wanted [rows, out] and [rows, in] to [out, in] and [out]");
  for (const Dest* dest : {&grad_weight, &grad_bias}) {
    check(holds(dest->out.dtype(), grad_y.dtype()), kOp, ": a gradient of ",
          name_of(dest->out.dtype()), " from operands of ", name_of(grad_y.dtype()));
    check_device(kOp, grad_y, dest->out, "a gradient");
  }
  if (grad_weight.out.numel() == 0) return sum_rows(grad_y, grad_bias);
  backend(grad_y.device()).matmul.linear_backward_weight(grad_y, x, grad_weight, grad_bias);
}

bool has_fast_bf16() { return cpu::onednn::has_fast_bf16(); }

}  // namespace lockstep::ops

#include "lockstep/tensor/ops/attention.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

#include <algorithm>
#include <cmath>

namespace lockstep::ops {
namespace {

constexpr const char* kOp = "attention";

void check_operands(const Tensor& q, const Tensor& k, const Tensor& v) {
  check(is_computable(q.dtype()) && k.dtype() == q.dtype() && v.dtype() == q.dtype(), kOp,
        ": wanted q, k and v of one dtype, f32, f64 or bf16, got ", name_of(q.dtype()), ", ",
        name_of(k.dtype()), " and ", name_of(v.dtype()));
  check_device(kOp, q, k, "k");
  check_device(kOp, q, v, "v");
  check(k.shape() == v.shape(), kOp, ": wanted k and v of one shape, got ", k.shape(), " and ",
        v.shape());
}

int64_t width_of_head(int64_t width, int64_t heads) {
  check(heads > 0 && width % heads == 0, kOp, ": ", heads, " heads do not divide a width of ",
        width);
  return width / heads;
}

}  // namespace

AttentionLayout attention_layout(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads) {
  check_operands(q, k, v);
  const auto mismatch = [&](const char* wanted) {
    return str(kOp, ": wanted ", wanted, ", got q ", q.shape(), ", k and v ", k.shape(), " and ",
               heads, " heads");
  };
  AttentionLayout l{.batch = q.shape().ndim() > 0 ? q.dim(0) : 0};
  if (q.ndim() == 4) {
    if (k.ndim() != 4 || heads != 0 || k.dim(0) != q.dim(0) || k.dim(1) != q.dim(1) ||
        k.dim(3) != q.dim(3)) {
      throw ArgumentError(mismatch("q [B, H, Sq, D], k and v [B, H, Sk, D] and heads 0"));
    }
    l.heads = q.dim(1), l.queries = q.dim(2), l.keys = k.dim(2), l.head_dim = q.dim(3);
    const auto steps = [&](int64_t rows) {
      return AttentionSteps{0, l.heads * rows * l.head_dim, rows * l.head_dim, l.head_dim};
    };
    l.q = l.out = steps(l.queries);
    l.k = l.v = steps(l.keys);
    return l;
  }
  if (q.ndim() != 3 || k.ndim() != 3 || k.dim(0) != q.dim(0) || k.dim(2) != q.dim(2)) {
    throw ArgumentError(mismatch("q [B, Sq, H * D], k and v [B, Sk, H * D]"));
  }
  const int64_t width = q.dim(2);
  l.heads = heads, l.queries = q.dim(1), l.keys = k.dim(1);
  l.head_dim = width_of_head(width, heads);
  l.q = l.out = {0, l.queries * width, l.head_dim, width};
  l.k = l.v = {0, l.keys * width, l.head_dim, width};
  return l;
}

AttentionLayout packed_attention_layout(const Tensor& qkv, int64_t heads) {
  check(qkv.ndim() == 3 && qkv.dim(2) % 3 == 0 && is_computable(qkv.dtype()), kOp,
        ": wanted qkv [B, S, 3 * H * D] in f32, f64 or bf16, got ", name_of(qkv.dtype()), " ",
        qkv.shape());
  const int64_t width = qkv.dim(2) / 3, rows = qkv.dim(1);
  const int64_t head_dim = width_of_head(width, heads);
  const auto steps = [&](int64_t part) {
    return AttentionSteps{part * width, rows * 3 * width, head_dim, 3 * width};
  };
  return {.batch = qkv.dim(0),
          .heads = heads,
          .queries = rows,
          .keys = rows,
          .head_dim = head_dim,
          .q = steps(0),
          .k = steps(1),
          .v = steps(2),
          .out = {0, rows * width, head_dim, width}};
}

AttentionParams attention_params(const AttentionLayout& l, const AttentionOptions& options,
                                 Generator* rng) {
  const Tensor& padding = options.key_padding_mask;
  check(!padding.defined() ||
            (padding.dtype() == DType::kU8 && padding.shape() == Shape{l.batch, l.keys}),
        kOp, ": wanted a key_padding_mask of u8 [", l.batch, ", ", l.keys, "], got ",
        padding.defined() ? str(name_of(padding.dtype()), " ", padding.shape()) : "none");
  AttentionParams params{.scale = options.scale.value_or(
                             1 / std::sqrt(static_cast<double>(std::max<int64_t>(l.head_dim, 1)))),
                         .causal = options.causal,
                         .drop = options.dropout != 0};
  if (!params.drop) return params;
  check(rng != nullptr, kOp, ": dropout of ", options.dropout, " wants a generator");
  const int64_t row = (l.keys + 3) / 4 * 4;
  params.dropout = dropout_mask(rng->take(l.batch * l.heads * l.queries * row), options.dropout);
  return params;
}

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding,
                          const AttentionLayout& l, const AttentionParams& params,
                          const Shape& shape) {
  check_operands(q, k, v);
  if (padding.defined()) check_device(kOp, q, padding, "the key_padding_mask");
  check(shape.numel() == l.batch * l.heads * l.queries * l.head_dim, kOp, ": a result of ", shape);
  AttentionResult result{
      Tensor::empty(shape, q.dtype(), q.device()),
      Tensor::empty({l.batch, l.heads, l.queries},
                    q.dtype() == DType::kF64 ? DType::kF64 : DType::kF32, q.device())};
  backend(q.device()).attention.forward(q, k, v, padding, l, params, result.out, result.lse);
  return result;
}

void attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& padding, const AttentionResult& forward,
                        const AttentionLayout& layout, const AttentionParams& params,
                        const Dest& grad_q, const Dest& grad_k, const Dest& grad_v) {
  const auto check_like = [](const Tensor& grad, const Tensor& x, const char* name) {
    if (!grad.defined()) return;
    check(grad.shape() == x.shape() && grad.dtype() == x.dtype(), "attention_backward: ", name,
          " of ", name_of(grad.dtype()), " ", grad.shape(), ", wanted ", name_of(x.dtype()), " ",
          x.shape());
    check_device("attention_backward", x, grad, name);
  };
  check_like(grad_out, forward.out, "grad_out");
  check_like(grad_q.out, q, "grad_q");
  check_like(grad_k.out, k, "grad_k");
  check_like(grad_v.out, v, "grad_v");
  backend(q.device())
      .attention.backward(grad_out, q, k, v, padding, forward.out, forward.lse, layout, params,
                          grad_q, grad_k, grad_v);
}

}  // namespace lockstep::ops

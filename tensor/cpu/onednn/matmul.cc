#include "lockstep/tensor/cpu/onednn/matmul.h"

#include "lockstep/tensor/cpu/onednn/onednn.h"

namespace lockstep::cpu::onednn {
namespace {

using dnnl::memory;

/// A [rows, cols] operand under a leading batch dimension; transposed ones lie as [cols, rows].
memory::desc operand(DType dtype, int64_t batch, int64_t rows, int64_t cols, bool transposed) {
  return memory::desc(
      {batch, rows, cols}, data_type(dtype),
      transposed ? memory::dims{rows * cols, 1, rows} : memory::dims{rows * cols, cols, 1});
}

std::unique_ptr<Call> make(const MatmulProblem& p, DType dtype, bool has_bias, bool accumulate) {
  const memory::desc a = operand(dtype, p.batched_a ? p.batch : 1, p.m, p.k, p.transpose_a);
  const memory::desc b = operand(dtype, p.batched_b ? p.batch : 1, p.k, p.n, p.transpose_b);
  const memory::desc bias = operand(dtype, 1, 1, p.n, false);
  const memory::desc out = operand(dtype, p.batch, p.m, p.n, false);
  const dnnl::primitive_attr attr = attributes(accumulate);
  constexpr bool kAllowEmpty = true;
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc pd =
      has_bias ? dnnl::matmul::primitive_desc(engine(), a, b, bias, out, attr, kAllowEmpty)
               : dnnl::matmul::primitive_desc(engine(), a, b, out, attr, kAllowEmpty);
#else
  const dnnl::matmul::desc desc =
      has_bias ? dnnl::matmul::desc(a, b, bias, out) : dnnl::matmul::desc(a, b, out);
  const dnnl::matmul::primitive_desc pd(desc, attr, engine(), kAllowEmpty);
#endif
  if (!pd) return nullptr;
  std::vector<Call::Arg> args{{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, out}};
  if (has_bias) args.push_back({DNNL_ARG_BIAS, bias});
  return std::make_unique<Call>(dnnl::matmul(pd), pd.scratchpad_desc(), args);
}

}  // namespace

bool matmul(const MatmulProblem& p, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Dest& out) {
  thread_local Cache<Call, 6> cache;
  const bool flags[] = {p.transpose_a, p.transpose_b,  p.batched_a,
                        p.batched_b,   bias.defined(), out.accumulate};
  int64_t packed = 0;
  for (bool flag : flags) packed = packed * 2 + flag;
  Call* call = cache.get({p.batch, p.m, p.n, p.k, packed, static_cast<int64_t>(a.dtype())},
                         [&] { return make(p, a.dtype(), bias.defined(), out.accumulate); });
  if (call == nullptr) return false;
  Tensor target = out.out;
  if (bias.defined()) {
    call->run({a.raw(), b.raw(), target.mutable_raw(), bias.raw()});
  } else {
    call->run({a.raw(), b.raw(), target.mutable_raw()});
  }
  return true;
}

}  // namespace lockstep::cpu::onednn

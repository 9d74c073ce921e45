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

struct DTypes {
  DType operands, bias, out;
};

std::unique_ptr<Call> make(const MatmulProblem& p, const DTypes& dtypes, bool has_bias,
                           bool accumulate) {
  const memory::desc a =
      operand(dtypes.operands, p.batched_a ? p.batch : 1, p.m, p.k, p.transpose_a);
  const memory::desc b =
      operand(dtypes.operands, p.batched_b ? p.batch : 1, p.k, p.n, p.transpose_b);
  const memory::desc bias = operand(dtypes.bias, 1, 1, p.n, false);
  const memory::desc out = operand(dtypes.out, p.batch, p.m, p.n, false);
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
  const DTypes dtypes{a.dtype(), bias.defined() ? bias.dtype() : a.dtype(), out.out.dtype()};
  const bool flags[] = {p.transpose_a, p.transpose_b,  p.batched_a,
                        p.batched_b,   bias.defined(), out.accumulate};
  int64_t packed = 0;
  for (bool flag : flags) packed = packed * 2 + flag;
  int64_t types = 0;
  for (DType dtype : {dtypes.operands, dtypes.bias, dtypes.out})
    types = types * 16 + static_cast<int64_t>(dtype);
  Call* call = cache.get({p.batch, p.m, p.n, p.k, packed, types},
                         [&] { return make(p, dtypes, bias.defined(), out.accumulate); });
  if (call == nullptr) return false;
  Tensor target = out.out;
  if (bias.defined()) {
    call->run({a.raw(), b.raw(), target.mutable_raw(), bias.raw()});
  } else {
    call->run({a.raw(), b.raw(), target.mutable_raw()});
  }
  return true;
}

bool has_fast_bf16() {
  // An instruction set's number has the bits of those that it contains.
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  constexpr auto kBf16 = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  return (isa & kBf16) == kBf16;
}

}  // namespace lockstep::cpu::onednn

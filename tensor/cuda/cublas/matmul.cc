#include "lockstep/tensor/cuda/cublas/matmul.h"

#include "lockstep/base/log.h"
#include "lockstep/base/str.h"
#include "lockstep/tensor/cuda/cublas/lt.h"
#include "lockstep/tensor/cuda/cublas/problem.h"
#include "lockstep/tensor/cuda/make_backend.h"
#include "lockstep/tensor/cuda/runtime.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/tf32.h"

#include <memory>

namespace lockstep::cuda {
namespace {

// What NVIDIA recommends for Hopper. Taken from the tensor allocator for each call, so it is
// memory of the stream and shared with every other temporary.
constexpr uint64_t kMaxWorkspace = 32 << 20;

template <auto kDestroy>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    (lt().*kDestroy)(object);
  }
};
template <class Handle, auto kDestroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Deleter<kDestroy>>;
using Desc = Owned<cublasLtMatmulDesc_t, &LtFunctions::desc_destroy>;
using Layout = Owned<cublasLtMatrixLayout_t, &LtFunctions::layout_destroy>;
using Preference = Owned<cublasLtMatmulPreference_t, &LtFunctions::preference_destroy>;

cudaDataType_t data_type(DType dtype) {
  return dtype == DType::kF64 ? CUDA_R_64F : dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
}

template <class T>
void set(const Desc& desc, cublasLtMatmulDescAttributes_t attribute, T value) {
  check_lt(lt().desc_set(desc.get(), attribute, &value, sizeof value),
           "cublasLtMatmulDescSetAttribute");
}

template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check_lt(lt().preference_set(preference.get(), attribute, &value, sizeof value),
           "cublasLtMatmulPreferenceSetAttribute");
}

Layout layout_of(const LtMatrix& m, DType dtype, int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check_lt(lt().layout_create(&made, data_type(dtype), static_cast<uint64_t>(m.rows),
                              static_cast<uint64_t>(m.cols), m.rows),
           "cublasLtMatrixLayoutCreate");
  Layout layout(made);
  const auto count = static_cast<int32_t>(batch);
  check_lt(lt().layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
           "cublasLtMatrixLayoutSetAttribute");
  check_lt(lt().layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m.stride,
                           sizeof m.stride),
           "cublasLtMatrixLayoutSetAttribute");
  return layout;
}

/// Descriptors and the chosen kernel of one problem.
class Product {
 public:
  /// Null when cuBLASLt has no kernel for it.
  static std::unique_ptr<Product> make(const LtCall& call, const void* vector) {
    std::unique_ptr<Product> product(new Product(call));
    return product->choose(call, vector) ? std::move(product) : nullptr;
  }

  /// `vector` is the epilogue's: a bias to read, or sums to write; null without one.
  void run(const void* a, const void* b, const void* vector, void* out) {
    if (vector != nullptr) set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    Tensor workspace;
    void* scratch = nullptr;
    if (chosen_.workspaceSize > 0) {
      workspace =
          Tensor::empty({static_cast<int64_t>(chosen_.workspaceSize)}, DType::kU8, Device::cuda());
      scratch = workspace.mutable_raw();
    }
    // alpha and beta have the type that sums are kept in.
    const float one = 1, beta = accumulate_ ? 1 : 0;
    const double wide_one = 1, wide_beta = beta;
    const bool wide = scale_ == CUDA_R_64F;
    check_lt(lt().matmul(lt_handle(), desc_.get(),
                         wide ? static_cast<const void*>(&wide_one) : &one, b, left_.get(), a,
                         right_.get(), wide ? static_cast<const void*>(&wide_beta) : &beta, out,
                         result_.get(), out, result_.get(), &chosen_.algo, scratch,
                         chosen_.workspaceSize, current_native_stream()),
             "cublasLtMatmul");
  }

 private:
  explicit Product(const LtCall& call)
      : scale_(call.operands == DType::kF64 ? CUDA_R_64F : CUDA_R_32F),
        accumulate_(call.accumulate) {
    const LtProduct p = lt_product(call.problem);
    left_ = layout_of(p.left, call.operands, call.problem.batch);
    right_ = layout_of(p.right, call.operands, call.problem.batch);
    result_ = layout_of(p.result, call.out, call.problem.batch);
    const cublasComputeType_t compute = call.operands == DType::kF64 ? CUBLAS_COMPUTE_64F
                                        : call.tf32                  ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                     : CUBLAS_COMPUTE_32F;
    cublasLtMatmulDesc_t made = nullptr;
    check_lt(lt().desc_create(&made, compute, scale_), "cublasLtMatmulDescCreate");
    desc_.reset(made);
    const auto op = [](const LtMatrix& m) { return m.transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, op(p.left));
    set(desc_, CUBLASLT_MATMUL_DESC_TRANSB, op(p.right));
  }

  bool choose(const LtCall& call, const void* vector) {
    const bool sums = call.epilogue == LtEpilogue::kSumsOfRight;
    if (call.epilogue != LtEpilogue::kNone) {
      // BIAS adds one for each row of the column-major result, for each column of ours. BGRADB sums
      // the right operand for each column of the result.
      set(desc_, CUBLASLT_MATMUL_DESC_EPILOGUE,
          sums ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BIAS);
      set(desc_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(data_type(call.out)));
      set(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    }
    cublasLtMatmulPreference_t made = nullptr;
    check_lt(lt().preference_create(&made), "cublasLtMatmulPreferenceCreate");
    const Preference preference(made);
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxWorkspace);
    // Partial sums of a split k stay in f32 and are added up in one order.
    set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        static_cast<uint32_t>(call.align_b));
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        static_cast<uint32_t>(call.align_a));
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(preference, attribute, static_cast<uint32_t>(call.align_out));
    }
    int found = 0;
    const cublasStatus_t status =
        lt().heuristic(lt_handle(), desc_.get(), left_.get(), right_.get(), result_.get(),
                       result_.get(), made, 1, &chosen_, &found);
    // All three say that this combination of types, shapes and epilogue has no kernel.
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
        status == CUBLAS_STATUS_ARCH_MISMATCH) {
      return false;
    }
    check_lt(status, "cublasLtMatmulAlgoGetHeuristic");
    return found > 0 && chosen_.state == CUBLAS_STATUS_SUCCESS;
  }

  Desc desc_;
  Layout left_, right_, result_;
  cudaDataType_t scale_;
  bool accumulate_;
  cublasLtMatmulHeuristicResult_t chosen_{};
};

using Cache = ProblemCache<Product, std::tuple_size_v<LtKey>>;

Cache& cache() {
  // cuBLASLt's descriptors are read during the call alone, so nothing needs to be waited for.
  static thread_local auto* products = new Cache(4096, [] {});
  return *products;
}

int64_t align(const Tensor& x) { return alignment_of(reinterpret_cast<uintptr_t>(x.raw())); }

/// out (+)= op(a) op(b) with an epilogue and its vector (null: none). False: nothing was done,
/// because cuBLASLt has no kernel for it.
bool multiply(const MatmulProblem& problem, const Tensor& a, const Tensor& b, LtEpilogue epilogue,
              const void* vector, const Dest& dest) {
  Tensor out = dest.out;
  const LtCall call{.problem = problem,
                    .operands = a.dtype(),
                    .out = out.dtype(),
                    .epilogue = epilogue,
                    .accumulate = dest.accumulate,
                    .tf32 = a.dtype() == DType::kF32 && allow_tf32(),
                    .align_a = align(a),
                    .align_b = align(b),
                    .align_out = align(out)};
  Product* product = cache().get(lt_key(call), [&] {
    auto made = Product::make(call, vector);
    // Sums beside a product are a pass of their own then, which is not worth a word.
    if (made == nullptr && epilogue != LtEpilogue::kSumsOfRight) {
      log_warning(str("cuBLASLt has no kernel for a product of ", problem.m, " x ", problem.k,
                      " and ", problem.k, " x ", problem.n, " in ", name_of(a.dtype()),
                      "; a slower one of ours takes it"));
    }
    return made;
  });
  if (product == nullptr) return false;
  product->run(a.raw(), b.raw(), vector, out.mutable_raw());
  return true;
}

void matmul(const MatmulProblem& problem, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Dest& dest) {
  const Tensor& out = dest.out;
  const auto own = [&] { own_heavy_kernels().matmul.matmul(problem, a, b, bias, dest); };
  if (!lt_takes(problem, a.dtype(), out.dtype(), bias.defined() ? bias.dtype() : out.dtype())) {
    return own();
  }
  // The epilogue wants the bias in the result's type, aligned for wide loads.
  Tensor fit = bias;
  if (bias.defined() && bias.dtype() != out.dtype()) {
    fit = Tensor::empty(bias.shape(), out.dtype(), bias.device());
    backend(bias.device()).copy.copy(bias, fit);
  }
  if (fit.defined() && align(fit) < 16) return own();
  if (!multiply(problem, a, b, fit.defined() ? LtEpilogue::kBias : LtEpilogue::kNone,
                fit.defined() ? fit.raw() : nullptr, dest)) {
    own();
  }
}

void sum_rows(const Tensor& x, const Dest& out) { own_heavy_kernels().matmul.sum_rows(x, out); }

/// Both gradients with one look at grad_y. False: nothing was done.
bool with_sums(const MatmulProblem& problem, const Tensor& grad_y, const Tensor& x,
               const Dest& grad_weight, const Dest& grad_bias) {
  const DType out = grad_weight.out.dtype();
  if (!lt_takes(problem, grad_y.dtype(), out, out)) return false;
  // The epilogue only writes: what is to be added to something is written beside it.
  Tensor to = grad_bias.out;
  Tensor sums = grad_bias.accumulate ? Tensor::empty(to.shape(), to.dtype(), to.device()) : to;
  if (!lt_sums(out, sums.dtype(), align(sums))) return false;
  if (!multiply(problem, grad_y, x, LtEpilogue::kSumsOfRight, sums.mutable_raw(), grad_weight))
    return false;
  if (grad_bias.accumulate) backend(to.device()).copy.add_scaled(sums, 1.0, to);
  return true;
}

void linear_backward_weight(const Tensor& grad_y, const Tensor& x, const Dest& grad_weight,
                            const Dest& grad_bias) {
  const MatmulProblem problem = weight_gradient(grad_y, x);
  if (with_sums(problem, grad_y, x, grad_weight, grad_bias)) return;
  sum_rows(grad_y, grad_bias);
  matmul(problem, grad_y, x, Tensor(), grad_weight);
}

}  // namespace

const MatmulKernels kLtMatmul{
    .matmul = matmul, .sum_rows = sum_rows, .linear_backward_weight = linear_backward_weight};

}  // namespace lockstep::cuda

#include "lockstep/tensor/cuda/cublas/lt.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/library.h"
#include "lockstep/tensor/cuda/runtime.h"

namespace lockstep::cuda {
namespace {

LtFunctions load() {
  const Library library("cuBLASLt", str("libcublasLt.so.", CUBLAS_VER_MAJOR).c_str());
  LtFunctions f{};
  library.bind(f.create, "cublasLtCreate");
  library.bind(f.status_string, "cublasLtGetStatusString");
  library.bind(f.matmul, "cublasLtMatmul");
  library.bind(f.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.bind(f.desc_create, "cublasLtMatmulDescCreate");
  library.bind(f.desc_destroy, "cublasLtMatmulDescDestroy");
  library.bind(f.desc_set, "cublasLtMatmulDescSetAttribute");
  library.bind(f.layout_create, "cublasLtMatrixLayoutCreate");
  library.bind(f.layout_destroy, "cublasLtMatrixLayoutDestroy");
  library.bind(f.layout_set, "cublasLtMatrixLayoutSetAttribute");
  library.bind(f.preference_create, "cublasLtMatmulPreferenceCreate");
  library.bind(f.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library.bind(f.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  return f;
}

}  // namespace

const LtFunctions& lt() {
  static const LtFunctions functions = load();
  return functions;
}

void check_lt(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]] {
    throw UnsupportedError(str("cuda: ", call, ": ", lt().status_string(status)));
  }
}

cublasLtHandle_t lt_handle() {
  static thread_local cublasLtHandle_t handle = nullptr;
  if (handle == nullptr) {
    bind_device();
    check_lt(lt().create(&handle), "cublasLtCreate");
  }
  return handle;
}

}  // namespace lockstep::cuda

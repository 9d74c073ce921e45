// cuBLASLt's functions and the calling thread's handle. Compiled only with --config=cuda.
#pragma once

#include <cublasLt.h>

namespace lockstep::cuda {

struct LtFunctions {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set;
};

/// Loads the library at the first call.
const LtFunctions& lt();

/// Throws UnsupportedError with the call's name and cuBLAS's own words unless it succeeded.
void check_lt(cublasStatus_t status, const char* call);

/// The calling thread's; made at its first call, and never destroyed: work of a thread that ends
/// may still run.
cublasLtHandle_t lt_handle();

}  // namespace lockstep::cuda

// cuDNN's graph functions (its "backend" API) and the calling thread's handle. Compiled only with
// --config=cuda.
#pragma once

#include "lockstep/tensor/plan_book.h"

#include <cudnn.h>

#include <string>

namespace lockstep::cuda {

struct CudnnFunctions {
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnGetLastErrorString) last_error;
  decltype(&cudnnBackendCreateDescriptor) descriptor_create;
  decltype(&cudnnBackendDestroyDescriptor) descriptor_destroy;
  decltype(&cudnnBackendSetAttribute) descriptor_set;
  decltype(&cudnnBackendGetAttribute) descriptor_get;
  decltype(&cudnnBackendFinalize) descriptor_finalize;
  decltype(&cudnnBackendExecute) execute;
};

/// Loads the library at the first call.
const CudnnFunctions& cudnn();

/// Throws UnsupportedError with the call's name and cuDNN's own words unless it succeeded.
void check_cudnn(cudnnStatus_t status, const char* call);

/// The calling thread's, set to its current stream; made at its first call, and never destroyed:
/// work of a thread that ends may still run.
cudnnHandle_t cudnn_handle();

/// Where what was found out about plans holds: this cuDNN on this GPU.
PlanOrigin cudnn_origin();

}  // namespace lockstep::cuda

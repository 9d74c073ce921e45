#include "lockstep/tensor/cuda/cudnn/api.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/library.h"
#include "lockstep/tensor/cuda/runtime.h"
#include "lockstep/tensor/memory.h"

namespace lockstep::cuda {
namespace {

CudnnFunctions load() {
  const Library library("cuDNN", str("libcudnn.so.", CUDNN_MAJOR).c_str());
  CudnnFunctions f{};
  library.bind(f.version, "cudnnGetVersion");
  library.bind(f.create, "cudnnCreate");
  library.bind(f.set_stream, "cudnnSetStream");
  library.bind(f.error_string, "cudnnGetErrorString");
  library.bind(f.last_error, "cudnnGetLastErrorString");
  library.bind(f.descriptor_create, "cudnnBackendCreateDescriptor");
  library.bind(f.descriptor_destroy, "cudnnBackendDestroyDescriptor");
  library.bind(f.descriptor_set, "cudnnBackendSetAttribute");
  library.bind(f.descriptor_get, "cudnnBackendGetAttribute");
  library.bind(f.descriptor_finalize, "cudnnBackendFinalize");
  library.bind(f.execute, "cudnnBackendExecute");
  return f;
}

}  // namespace

const CudnnFunctions& cudnn() {
  static const CudnnFunctions functions = load();
  return functions;
}

void check_cudnn(cudnnStatus_t status, const char* call) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]] {
    char more[512] = "";
    cudnn().last_error(more, sizeof more);
    throw UnsupportedError(
        str("cuda: ", call, ": ", cudnn().error_string(status), more[0] == 0 ? "" : ": ", more));
  }
}

cudnnHandle_t cudnn_handle() {
  static thread_local cudnnHandle_t handle = nullptr;
  if (handle == nullptr) {
    bind_device();
    check_cudnn(cudnn().create(&handle), "cudnnCreate");
  }
  check_cudnn(cudnn().set_stream(handle, current_native_stream()), "cudnnSetStream");
  return handle;
}

PlanOrigin cudnn_origin() {
  require_cuda();  // chooses the GPU, or says what is missing
  bind_device();
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  const size_t version = cudnn().version();
  return {.library = str("cuDNN ", version / 10000, ".", version / 100 % 100, ".", version % 100),
          .device = properties.name};
}

}  // namespace lockstep::cuda

#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/cublas/matmul.h"
#include "lockstep/tensor/cuda/cudnn/api.h"
#include "lockstep/tensor/cuda/cudnn/attention.h"
#include "lockstep/tensor/cuda/cudnn/conv.h"
#include "lockstep/tensor/cuda/make_backend.h"
#include "lockstep/tensor/cuda/memory.h"
#include "lockstep/tensor/cuda/runtime.h"
#include "lockstep/tensor/cuda/stream.h"

namespace lockstep::cuda {
namespace {

CudaSlot probe() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    return {.missing =
                str("this program has CUDA, but this machine has no usable NVIDIA driver or GPU: ",
                    cudaGetErrorString(status))};
  }
  const int wanted = chosen_cuda_device();
  if (devices > 1 && wanted >= devices) {
    return {.missing = str("this is rank ", wanted, " of this machine (from 0), but only ", devices,
                           " GPUs are visible; start one rank for each GPU")};
  }
  use_device(devices == 1 ? 0 : wanted);
  bind_device();
  if (!kernels_fit()) {
    return {.missing =
                "this program has no code for this machine's kind of GPU; build it with "
                "--config=cuda_release, which covers sm_80, sm_90 and later ones"};
  }
  static const Backend backend =
      make_backend("cuda", cuda_memory(), cuda_streams(),
                   {.matmul = kLtMatmul, .conv = kCudnnConv, .attention = kCudnnAttention});
  return {
      .backend = &backend, .memory = &backend.memory, .streams = &backend.streams, .missing = ""};
}

[[maybe_unused]] const bool kRegistered =
    (set_cuda_probe(probe), set_plan_origin(cudnn_origin), true);

}  // namespace
}  // namespace lockstep::cuda

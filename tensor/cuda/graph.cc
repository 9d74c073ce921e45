// Capturing a stream's work as a CUDA graph, behind tensor/device_graph.h.
#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/runtime.h"
#include "lockstep/tensor/cuda/stream.h"
#include "lockstep/tensor/device_graph.h"

#include <type_traits>
#include <utility>

namespace lockstep::cuda {
namespace {

thread_local bool capturing = false;

template <auto kDestroy>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy<cudaGraphDestroy>>;
using Exec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy<cudaGraphExecDestroy>>;

class CudaGraph final : public DeviceGraph {
 public:
  explicit CudaGraph(cudaGraph_t graph) {
    cudaGraphExec_t exec = nullptr;
    check_cuda(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
    exec_.reset(exec);
  }
  void replay(Stream& stream) override {
    bind_device();
    check_cuda(cudaGraphLaunch(exec_.get(), native_stream(stream)), "cudaGraphLaunch");
  }

 private:
  Exec exec_;
};

}  // namespace

void require_no_capture(const char* what) {
  if (!capturing) [[likely]]
    return;
  throw Error(str("cuda: ", what, " while work is captured as a graph"));
}

void CudaStream::begin_capture() {
  bind_device();
  // Thread-local: other threads, such as a watchdog's, may ask and allocate meanwhile.
  check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  capturing = true;
}

std::unique_ptr<DeviceGraph> CudaStream::end_capture() {
  capturing = false;
  cudaGraph_t captured = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_, &captured);
  const Graph graph(captured);
  check_cuda(status, "cudaStreamEndCapture");
  return std::make_unique<CudaGraph>(graph.get());
}

}  // namespace lockstep::cuda

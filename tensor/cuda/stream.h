// CUDA's streams and events behind tensor/stream.h.
#pragma once

#include "lockstep/tensor/device_graph.h"

#include <cuda_runtime.h>

namespace lockstep::cuda {

/// Owns a CUDA stream, which does not synchronise with the legacy default stream.
class CudaStream final : public Stream {
 public:
  explicit CudaStream(StreamPriority priority = StreamPriority::kNormal);
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  EventPtr record() override;
  EventPtr record_timed() override;
  /// `event` must be one that a CudaStream recorded.
  void wait(const EventPtr& event) override;
  void begin_capture() override;
  std::unique_ptr<DeviceGraph> end_capture() override;
  cudaStream_t native() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

const DeviceStreams& cuda_streams();

/// Throws Error, beginning with `what`, when this thread captures: what CUDA forbids then, and a
/// copy from the host, whose replays would copy what there was.
void require_no_capture(const char* what);

}  // namespace lockstep::cuda

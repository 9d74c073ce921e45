// CUDA's streams and events behind tensor/stream.h.
#pragma once

#include "lockstep/tensor/stream.h"

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
  cudaStream_t native() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

const DeviceStreams& cuda_streams();

}  // namespace lockstep::cuda

// DeviceGraph: work of a stream, recorded once and replayed as often as wanted by one call of the
// host's. What a replay does is what was recorded, with the same memory and the same arguments of
// kernels: numbers that change from one replay to the next are read from the device (live.h), and
// memory that the recorded work used must stay its own (Allocator::hold).
//
//   std::unique_ptr<DeviceGraph> graph;
//   {
//     GraphCapture capture(stream);  // the calling thread's current stream
//     ...                            // ops: they are recorded, not run
//     graph = capture.finish();
//   }
//   graph->replay(stream);
//
// While work is captured the host can neither wait for the device nor copy between the two, and no
// memory can be asked of the driver: run the same work two or three times before.
#pragma once

#include "lockstep/tensor/stream.h"

#include <memory>

namespace lockstep {

/// Memory that the graph uses must outlive it.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  /// Enqueues the work on `stream`, of the same device; returns at once.
  virtual void replay(Stream& stream) = 0;
};

/// While one lives, what this thread enqueues on `stream` is recorded instead of done. Without
/// finish(), as after an exception, what was recorded is dropped.
class [[nodiscard]] GraphCapture {
 public:
  explicit GraphCapture(Stream& stream);
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  std::unique_ptr<DeviceGraph> finish();

 private:
  Stream* stream_;  // null: finished
};

}  // namespace lockstep

#include "lockstep/tensor/device_graph.h"

#include <exception>
#include <utility>

namespace lockstep {

GraphCapture::GraphCapture(Stream& stream) : stream_(&stream) { stream.begin_capture(); }

GraphCapture::~GraphCapture() {
  if (stream_ == nullptr) return;
  try {
    stream_->end_capture();
  } catch (const std::exception&) {
    // Whatever ended the capture before its time is told by its own exception.
  }
}

std::unique_ptr<DeviceGraph> GraphCapture::finish() {
  return std::exchange(stream_, nullptr)->end_capture();
}

}  // namespace lockstep

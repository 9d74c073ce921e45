#include "lockstep/tensor/cuda/cudnn/time_run.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/runtime.h"
#include "lockstep/tensor/plan_book.h"
#include "lockstep/tensor/stream.h"

#include <new>

namespace lockstep::cuda {
namespace {

constexpr int kRuns = 3;

}  // namespace

bool may_time_plans() {
  if (!time_plans()) return false;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(current_native_stream(), &status), "cudaStreamIsCapturing");
  return status == cudaStreamCaptureStatusNone;
}

std::optional<int64_t> time_run(const std::function<Run()>& prepare) {
  Stream& stream = current_stream(Device::cuda());
  EventPtr begin, end;
  try {
    const Run run = prepare();
    // One ahead of the first event: while the device is at it the host enqueues those that count,
    // so that a short kernel's time is not the host's.
    run();
    begin = stream.record_timed();
    for (int i = 0; i < kRuns; ++i) run();
    end = stream.record_timed();
  } catch (const UnsupportedError&) {
    return std::nullopt;
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  end->wait_host();
  return end->nanoseconds_since(*begin) / kRuns;
}

}  // namespace lockstep::cuda

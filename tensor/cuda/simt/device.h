// Memory and streams for kernels that run on the CPU. Everything has happened when a call returns,
// but for work that is captured (device_graph.h): that is a list of closures, which nobody runs
// before the replay, as on a GPU. So a test finds what a graph has taken from the host for good.
// What a GPU forbids within a capture throws here as well.
//
// Memory that is freed is poisoned, in the order of its stream: in a graph, too.
#pragma once

#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/stream.h"

#include <functional>

namespace lockstep::simt {

/// Runs `work`, or records it when the calling thread's current stream is one of these and
/// captures.
void enqueue(std::function<void()> work);

const DeviceMemory& device_memory();
const DeviceStreams& device_streams();

}  // namespace lockstep::simt

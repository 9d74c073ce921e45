// A group over two of the same ranks: one for tensors on the host, one for tensors on a device.
// NCCL takes no host tensors, and what the ranks tell each other besides gradients is on the host,
// where it must not wait for the device.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <memory>

namespace lockstep {

/// Owns both. Operations on tensors of one kind run in order; those of different kinds may overlap.
/// barrier() and backend() are the device group's. abort() ends both; a failure that the device
/// group finds ends the host group, too.
std::unique_ptr<ProcessGroup> make_paired_group(std::unique_ptr<ProcessGroup> host,
                                                std::unique_ptr<ProcessGroup> device);

}  // namespace lockstep

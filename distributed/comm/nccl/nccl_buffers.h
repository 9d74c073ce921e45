// NcclBuffers: memory that is registered with a communicator, so that NCCL may reduce it where it
// lies instead of through buffers of its own.
//
// What is worth it shows in use: memory in which an all_reduce comes back to the place where its
// first one was, as those of the gradients do in their second step, is registered then, as one
// range from the first to the last byte that was reduced there. For an arena of gradients that is
// once, all of it. NCCL wants registered memory on all ranks or on none, at equal offsets; ranks
// call the same collectives on the same layouts, so all of them register before the same call.
//
// It holds what is registered until nobody else does, and deregisters before it lets go, at the
// next operation; so memory never goes while NCCL knows it. After an abort there is nothing to
// deregister: that ended with the communicator.
//
// Threads: one at a time, that of NcclCommunicator::issue().
#pragma once

#include "lockstep/distributed/comm/nccl/nccl_communicator.h"
#include "lockstep/distributed/comm/op.h"

#include <cstddef>
#include <vector>

namespace lockstep::comm {

class NcclBuffers {
 public:
  NcclBuffers(NcclApi& api, NcclCommunicator& communicator)
      : api_(api), communicator_(communicator) {}

  /// Before `op` is issued. Throws CommError with NCCL's words; returns false if the communicator
  /// was aborted.
  bool prepare(const Op& op);
  /// Once nothing is in flight, before the communicator is closed. False where that failed or there
  /// was an abort.
  bool release();

 private:
  /// An allocation that was reduced in.
  struct Block {
    Tensor memory;                  // any view of it
    size_t first_begin, first_end;  // of the first all_reduce, in bytes from the allocation's start
    size_t begin, end;              // of all so far
    bool registered = false;
    void* handle = nullptr;
  };
  /// Deregisters; what follows is the caller's.
  bool deregister(Block& block);

  NcclApi& api_;
  NcclCommunicator& communicator_;
  std::vector<Block> blocks_;  // a few
};

}  // namespace lockstep::comm

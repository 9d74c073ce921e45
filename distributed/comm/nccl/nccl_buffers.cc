#include "lockstep/distributed/comm/nccl/nccl_buffers.h"

#include "lockstep/base/error.h"

#include <algorithm>

namespace lockstep::comm {

bool NcclBuffers::deregister(Block& block) {
  if (!block.registered) return true;
  block.registered = false;
  return communicator_.issue(
      [&](NcclComm& comm) { return api_.deregister_buffer(block.handle, comm); });
}

bool NcclBuffers::prepare(const Op& op) {
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    // Nothing in flight uses it either: what is in flight holds it.
    if (!block->memory.unique()) {
      ++block;
      continue;
    }
    if (!deregister(*block)) return false;
    block = blocks_.erase(block);
  }
  if (op.kind() != OpKind::kAllReduce || op.count() == 0) return true;
  const size_t begin = op.out.offset_bytes(), end = begin + op.out.nbytes();
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.memory.shares_memory(op.out);
  });
  if (found == blocks_.end()) {
    blocks_.push_back({op.out, begin, end, begin, end});
    return true;
  }
  if (found->registered) return true;
  found->begin = std::min(found->begin, begin);
  found->end = std::max(found->end, end);
  if (begin != found->first_begin || end != found->first_end) return true;
  std::byte* const start = op.out_data - begin;
  found->registered = communicator_.issue([&](NcclComm& comm) {
    return api_.register_buffer(start + found->begin, found->end - found->begin, comm,
                                found->handle);
  });
  return found->registered;
}

bool NcclBuffers::release() {
  try {
    for (Block& block : blocks_) {
      if (!deregister(block)) return false;
    }
  } catch (const CommError&) {
    return false;  // the abort that follows ends it
  }
  blocks_.clear();
  return true;
}

}  // namespace lockstep::comm

// BufferBroadcast: one rank's buffers (running statistics and the like), rank 0's unless told
// otherwise, for every rank (section 4.1 of Li et al., PVLDB 13(12), 2020).
//
// All buffers of a device travel as one message. It can be started when backward begins, as no
// forward changes them any more, and travels while backward runs.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/nn/module.h"

#include <array>
#include <functional>
#include <vector>

namespace lockstep {

class BufferBroadcast {
 public:
  /// `group` must outlive this. The ranks' buffers must have the same sizes. `root` is asked at
  /// each start whose buffers they are, the same on every rank; null: rank 0's.
  BufferBroadcast(std::vector<NamedBuffer> buffers, ProcessGroup& group,
                  std::function<int()> root = nullptr);
  ~BufferBroadcast();
  BufferBroadcast(const BufferBroadcast&) = delete;
  BufferBroadcast& operator=(const BufferBroadcast&) = delete;

  /// Collective. The root's values of this moment.
  void start();
  /// Waits for them and writes those that differ: a buffer that stays the same is not marked as
  /// changed, so a graph that saved it can still run backward.
  void finish();

 private:
  struct Message {
    std::vector<Tensor> buffers;  // of one device
    Tensor bytes;                 // u8, theirs one after the other
  };
  void wait();

  std::array<Message, 2> messages_;  // the host's, a device's
  ProcessGroup& group_;
  std::function<int()> root_;
  int sender_ = 0;  // the root of what travels
  std::vector<WorkPtr> works_;
};

}  // namespace lockstep

// The plain sum, as a hook: what compression is compared with.
#pragma once

#include "lockstep/distributed/reduce/comm_hook.h"

namespace lockstep {

class AllReduceHook final : public CommHook {
 public:
  int64_t reduce(const GradBucket& bucket, ProcessGroup& group) override {
    group.all_reduce(bucket.flat, ReduceOp::kSum)->wait();
    return static_cast<int64_t>(bucket.flat.nbytes());
  }
};

}  // namespace lockstep

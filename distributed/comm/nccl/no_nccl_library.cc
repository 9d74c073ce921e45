// Stands in for nccl_library.cc where CUDA is not built.
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/nccl/nccl_library.h"

namespace lockstep::comm {

NcclApi& nccl_library() {
  throw UnsupportedError(
      "backend nccl: this program was built without CUDA; build it with --config=cuda, or use the "
      "backend gloo");
}

}  // namespace lockstep::comm

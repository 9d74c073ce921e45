// Buffers on a device and on the host reach every rank, the root's.
#include "lockstep/distributed/buffer_broadcast.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/rank_groups.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::GroupPtr;

constexpr int kRanks = 3;

TEST_CASE("buffers of several dtypes and devices travel from the root to every rank") {
  for (const std::string& backend : testing::kBackends) {
    CAPTURE(backend);
    testing::run_all_well(backend, kRanks, [&](GroupPtr group) {
      const Device device = testing::device_of(backend);
      const double mine = group->rank() + 1;
      std::vector<NamedBuffer> buffers;
      buffers.push_back({"mean", ops::full({3}, mine, DType::kF32, device)});
      buffers.push_back({"steps", ops::full({}, mine, DType::kI64, device)});
      buffers.push_back({"wide", ops::full({2, 5}, mine, DType::kF64, device)});
      buffers.push_back({"of the host", ops::full({4}, mine, DType::kF32)});
      int root = 0;
      BufferBroadcast broadcast(buffers, *group, [&] { return root; });
      for (const int from : {0, 2}) {
        root = from;
        const double wanted = 10 * from + 3;
        for (NamedBuffer& named : buffers)
          ops::fill(named.buffer, group->rank() == from ? wanted : -1);
        broadcast.start();
        broadcast.finish();
        for (const NamedBuffer& named : buffers) {
          const Tensor got = ops::to_device(named.buffer, Device::cpu());
          const Tensor all = ops::full(got.shape(), wanted, got.dtype());
          CHECK_MESSAGE(std::memcmp(got.raw(), all.raw(), all.nbytes()) == 0, named.name);
        }
      }
    });
  }
}

}  // namespace
}  // namespace lockstep

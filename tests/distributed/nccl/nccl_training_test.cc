// Data-parallel training over NCCL is that of one process, in every mode.
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/tests/distributed/rank_groups.h"
#include "lockstep/tests/distributed/reduce/small_net.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cstring>

namespace lockstep {
namespace {

using testing::GroupPtr;
using testing::TrainOptions;

constexpr int kRanks = 3;

TrainOptions training(DType dtype, const DdpOptions& ddp, int micro_batches) {
  return {
      .global_batch = 24, .steps = 6, .micro_batches = micro_batches, .dtype = dtype, .ddp = ddp};
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a[i].raw(), b[i].raw(), a[i].nbytes()) != 0) return false;
  }
  return a.size() == b.size();
}

TEST_CASE("naive, bucketed and overlapped train what one process trains, replicas bit for bit") {
  const auto alone =
      testing::train_small_net_on(*make_single_group(), training(DType::kF64, {}, 1));
  for (const std::string& backend : testing::kBackends) {
    for (const DdpMode mode : {DdpMode::kNaive, DdpMode::kBucketed, DdpMode::kOverlapped}) {
      for (const double cap : {0.0, 25.0}) {
        for (const int micro_batches : {1, 2}) {  // the first of two under no_sync
          CAPTURE(backend);
          CAPTURE(name_of(mode));
          CAPTURE(cap);
          CAPTURE(micro_batches);
          std::vector<std::vector<Tensor>> replicas(kRanks);
          testing::run_all_well(backend, kRanks, [&](GroupPtr group) {
            omp_set_num_threads(1);
            auto options = training(
                DType::kF64, {.mode = mode, .bucket_cap_mb = cap, .first_bucket_cap_mb = cap},
                micro_batches);
            options.device = testing::device_of(backend);
            replicas[static_cast<size_t>(group->rank())] =
                testing::train_small_net_on(*group, options);
          });
          // The same numbers added in another order, f64.
          CHECK(testing::largest_difference(replicas[0], alone) < 1e-12);
          for (const auto& replica : replicas) CHECK(same_bits(replica, replicas[0]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep

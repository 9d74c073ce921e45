// Over the canonical reduction a training run ends with the same bits whatever the buckets, the
// mode and the backend are.
#include "lockstep/distributed/comm/canonical_group.h"
#include "lockstep/tests/distributed/rank_groups.h"
#include "lockstep/tests/distributed/reduce/small_net.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cstring>

namespace lockstep {
namespace {

using testing::GroupPtr;
using testing::kHostBackends;
using testing::TrainOptions;

/// The bytes of rank 0's parameters, after a check that the other ranks have the same.
std::vector<std::byte> train(const std::string& backend, int ranks, const DdpOptions& ddp,
                             bool canonical = true) {
  const TrainOptions options{
      .global_batch = 24, .steps = 6, .micro_batches = 2, .dtype = DType::kF32, .ddp = ddp};
  std::vector<std::vector<std::byte>> results(static_cast<size_t>(ranks));
  testing::run_all_well(backend, ranks, [&](GroupPtr group) {
    omp_set_num_threads(1);
    if (canonical) group = make_canonical_group(std::move(group));
    std::vector<std::byte>& bytes = results[static_cast<size_t>(group->rank())];
    for (const Tensor& value : testing::train_small_net_on(*group, options)) {
      bytes.insert(bytes.end(), value.raw(), value.raw() + value.nbytes());
    }
  });
  for (const auto& result : results) CHECK(result == results[0]);
  return results[0];
}

TEST_CASE("canonical: the same bits over caps, modes and backends, at 3 and 4 ranks") {
  for (int ranks : {3, 4}) {
    const auto wanted = train("threads", ranks, {});
    for (const std::string& backend : kHostBackends) {
      for (double cap : {0.0, 1.0 / 1024, 1.0, 25.0}) {
        for (DdpMode mode : {DdpMode::kNaive, DdpMode::kBucketed, DdpMode::kOverlapped}) {
          CAPTURE(ranks);
          CAPTURE(backend);
          CAPTURE(cap);
          CAPTURE(int(mode));
          const auto got = train(backend, ranks,
                                 {.mode = mode, .bucket_cap_mb = cap, .first_bucket_cap_mb = cap});
          CHECK(got == wanted);
        }
      }
    }
  }
}

TEST_CASE("without it, Gloo's bits depend on the buckets: the comparison can fail") {
  const auto a = train("gloo", 4, {.bucket_cap_mb = 0, .first_bucket_cap_mb = 0}, false);
  const auto b = train("gloo", 4, {}, false);
  CHECK(a != b);
}

}  // namespace
}  // namespace lockstep

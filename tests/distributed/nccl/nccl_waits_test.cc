// Each of the waits between the streams of a group over NCCL is needed: without it the same program
// computes something else.
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/nccl/nccl_ranks.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdio>

namespace lockstep {
namespace {

using namespace testing;
using std::chrono::milliseconds;

constexpr Delay kNone{};
constexpr Delay kSlow{milliseconds(5), milliseconds(5)};
constexpr LeftOut kNoWaits{.waits = true};
constexpr LeftOut kNoHostWaits{.host_waits = true};

/// Whether every rank reads the right sum after fill, all_reduce, wait and a kernel, all on
/// streams; `on_host`: after fill, all_reduce and wait_host, with the host's own eyes.
bool sums_are_right(const SimDeviceOptions& options, bool on_host,
                    std::chrono::microseconds in_progress = {}) {
  const SimDevice device(options);
  std::atomic<bool> right{true};
  run_nccl({.fake = [&](int) { return FakeNcclOptions{.in_progress = in_progress}; }},
           [&](NcclRank& rank) {
             for (int step = 0; step < 3; ++step) {
               Tensor x = on_device(rank.group->rank() + 1);
               const WorkPtr work = rank.group->all_reduce(x);
               Tensor seen;
               if (on_host) {
                 work->wait_host(std::chrono::seconds(20));
                 seen = ops::clone(host_view(x));
               } else {
                 work->wait();
                 ops::scale(x, 1);
                 seen = ops::to_device(x, Device::cpu());
               }
               for (const float value : seen.to_vector<float>()) {
                 if (value != 6) right = false;
               }
             }
           });
  return right;
}

/// Leaving out a wait is a data race, made on purpose, which ThreadSanitizer rightly reports.
bool races_are_reported() {
#ifdef __SANITIZE_THREAD__
  std::puts("SKIPPED: ThreadSanitizer would report the races that this test makes on purpose");
  return true;
#else
  return false;
#endif
}

TEST_CASE("with all waits the sums are right") {
  for (const bool on_host : {true, false}) {
    CHECK(sums_are_right({.compute = kSlow, .side = kNone}, on_host));
    CHECK(sums_are_right({.compute = kNone, .side = kSlow}, on_host));
    CHECK(sums_are_right({.compute = kNone, .side = kNone}, on_host, milliseconds(5)));
  }
}

TEST_CASE("the collective waits for the kernels before it") {
  if (races_are_reported()) return;
  CHECK_FALSE(sums_are_right({.compute = kSlow, .side = kNone, .side_left_out = kNoWaits}, false));
}

TEST_CASE("the kernels after it wait for the collective") {
  if (races_are_reported()) return;
  CHECK_FALSE(
      sums_are_right({.compute = kNone, .side = kSlow, .compute_left_out = kNoWaits}, false));
}

TEST_CASE("the host waits for the collective") {
  if (races_are_reported()) return;
  CHECK_FALSE(
      sums_are_right({.compute = kNone, .side = kSlow, .side_left_out = kNoHostWaits}, true));
}

}  // namespace
}  // namespace lockstep

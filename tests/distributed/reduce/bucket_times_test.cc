// What the timeline says of each bucket: ready, launched, moved and waited for, in this order.
#include "toy.h"

#include "lockstep/base/error.h"
#include "lockstep/base/timeline.h"
#include "lockstep/distributed/reduce/reducer.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

struct Life {
  int readies = 0, launches = 0, transfers = 0, waits = 0;
  int64_t ready = 0, launch = 0, start = 0, finish = 0, waited = 0;
};

std::vector<Life> lives_of(const StepEvents& step, size_t buckets) {
  std::vector<Life> lives(buckets);
  for (const auto& [span, thread] : step.events) {
    if (span.id < 0) continue;
    Life& life = lives.at(static_cast<size_t>(span.id));
    switch (span.activity) {
      case Activity::kBucketReady:
        ++life.readies;
        life.ready = span.begin_ns;
        break;
      case Activity::kBucketLaunch:
        ++life.launches;
        life.launch = span.begin_ns;
        break;
      case Activity::kCommunication:
        ++life.transfers;
        life.start = span.begin_ns;
        life.finish = span.end_ns;
        break;
      default:
        ++life.waits;
        life.waited = span.end_ns;
    }
  }
  return lives;
}

void require(bool condition, const char* what, size_t bucket) {
  if (!condition) throw Error(str("bucket ", bucket, ": ", what));
}

TEST_CASE("each bucket is ready, launched, moved and waited for once, in this order") {
  for (const DdpMode mode : kAveraging) {
    on_ranks(3, [mode](ProcessGroup& group) {
      Timeline timeline;
      Toy toy(group.rank());
      const BucketPlan plan = plan_buckets(toy.specs, {0, 200.0 / 1024 / 1024});
      const size_t buckets = plan.buckets.size();
      Reducer reducer(toy.params, plan, group, {.mode = mode, .timeline = &timeline});
      // Every rank completes its gradients in another order.
      std::vector<int> order(Toy::kParams);
      std::iota(order.begin(), order.end(), 0);
      std::rotate(order.begin(), order.begin() + group.rank(), order.end());
      for (int step = 0; step < 3; ++step) {
        timeline.begin_step(step);
        toy.zero_grad();
        toy.loss(step, order).backward();
        timeline.end_step();
        const std::vector<Life> lives = lives_of(timeline.kept().back(), buckets);
        int64_t last_ready = 0;
        for (const Life& life : lives) last_ready = std::max(last_ready, life.ready);
        for (size_t b = 0; b < buckets; ++b) {
          const Life& life = lives[b];
          require(life.readies == 1, "not ready once", b);
          require(life.launches == 1, "not launched once", b);
          require(life.transfers == 1, "not moved once", b);
          require(life.waits == 1, "not waited for once", b);
          require(life.ready <= life.launch, "launched before it was ready", b);
          require(life.launch <= life.start, "moved before it was launched", b);
          require(life.start <= life.finish && life.finish <= life.waited, "waited too little", b);
          require(b == 0 || lives[b - 1].launch <= life.launch, "launched out of order", b);
          require(mode == DdpMode::kOverlapped || life.launch >= last_ready,
                  "launched within backward", b);
        }
        require(mode != DdpMode::kOverlapped || lives[0].launch < last_ready,
                "launched after backward", 0);
      }
    });
  }
}

}  // namespace
}  // namespace lockstep

#include "lockstep/bench/contender.h"

#include "lockstep/autograd/autocast.h"
#include "lockstep/train/image_batch.h"

#include <time.h>

#include <memory>
#include <sstream>

namespace lockstep::bench {
namespace {

double cpu_ms() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

}  // namespace

std::string Way::name() const {
  std::ostringstream text;
  text << name_of(mode);
  const bool buckets = mode == DdpMode::kBucketed || mode == DdpMode::kOverlapped;
  if (buckets) text << ", " << cap_mb << " MB";
  if (buckets && last_cap_mb) text << ", last " << *last_cap_mb << " MB";
  if (sync_every > 1) text << ", every " << sync_every;
  if (precision != DType::kF32) text << ", " << name_of(precision);
  return text.str();
}

Contender::Contender(const Workload& workload, const Way& way, ProcessGroup& group)
    : precision_(way.precision),
      timeline_(way.timeline ? std::optional<Timeline>(std::in_place) : std::nullopt),
      batch_(to_device(make_batch(workload, group.rank()), way.device)),
      replica_(make_loss_model(workload.task), group, options(workload, way)) {}

ReplicaOptions Contender::options(const Workload& workload, const Way& way) {
  return {.ddp = {.mode = way.mode,
                  .bucket_cap_mb = way.cap_mb,
                  .last_bucket_cap_mb = way.last_cap_mb,
                  .timeline = timeline()},
          .micro_batches = way.sync_every,
          .optimizer =
              [&workload](std::vector<NamedParameter> parameters) {
                return make_optimizer(workload, std::move(parameters));
              },
          .device = way.device};
}

StepCost Contender::step() {
  StepCost cost;
  const double cpu_before = cpu_ms();
  const int64_t begin = Timeline::now_ns();
  if (timeline_) timeline_->begin_step(step_);
  const Autocast precision(precision_);
  replica_.step([this](int64_t) { return batch_; });
  if (timeline_) cost.times = timeline_->end_step();
  ++step_;
  cost.wall_ms = static_cast<double>(Timeline::now_ns() - begin) * 1e-6;
  cost.cpu_ms = cpu_ms() - cpu_before;
  return cost;
}

}  // namespace lockstep::bench

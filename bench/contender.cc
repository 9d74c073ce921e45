#include "lockstep/bench/contender.h"

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/tensor/ops/random.h"

#include <time.h>

#include <sstream>

namespace lockstep::bench {
namespace {

constexpr int64_t kLargestCifarImage = 64;  // pixels

double cpu_ms() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}

}  // namespace

ResNetStem stem_for(int64_t image_size) {
  return image_size <= kLargestCifarImage ? ResNetStem::kCifar : ResNetStem::kImageNet;
}

SyntheticBatch make_batch(const Workload& workload, uint64_t seed) {
  SyntheticBatch batch{
      Tensor::empty({workload.batch, workload.size, workload.size, 3}, DType::kF32),
      Tensor::empty({workload.batch}, DType::kI64)};
  Generator rng(seed);
  ops::normal(batch.images, 0, 1, rng);
  for (int64_t i = 0; i < workload.batch; ++i) {
    batch.labels.mutable_data<int64_t>()[i] = i % workload.classes;
  }
  return batch;
}

std::string Way::name() const {
  std::ostringstream text;
  text << name_of(mode);
  const bool buckets = mode == DdpMode::kBucketed || mode == DdpMode::kOverlapped;
  if (buckets) text << ", " << cap_mb << " MB";
  if (buckets && last_cap_mb) text << ", last " << *last_cap_mb << " MB";
  if (sync_every > 1) text << ", every " << sync_every;
  return text.str();
}

Contender::Contender(const Workload& workload, const Way& way, ProcessGroup& group)
    : way_(way), rng_(1) {
  model_ = make_resnet(workload.model, {.classes = workload.classes, .stem = workload.stem}, rng_);
  if (way.timeline) timeline_.emplace();
  ddp_.emplace(*model_, group,
               DdpOptions{.mode = way.mode,
                          .bucket_cap_mb = way.cap_mb,
                          .last_bucket_cap_mb = way.last_cap_mb,
                          .timeline = timeline()});
  optimizer_.emplace(model_->named_parameters(), SgdOptions{.lr = 0.01, .momentum = 0.9});
}

void Contender::backward(const Variable& loss, bool synchronize) {
  if (synchronize) return loss.backward();
  const NoSync accumulate_only = ddp_->no_sync();
  loss.backward();
}

StepCost Contender::step(const SyntheticBatch& batch) {
  StepCost cost;
  const double cpu_before = cpu_ms();
  const int64_t begin = Timeline::now_ns();
  if (timeline_) timeline_->begin_step(step_);
  optimizer_->zero_grad();
  for (int i = 1; i <= way_.sync_every; ++i) {
    Variable loss;
    {
      const ScopedSpan span(timeline(), Activity::kForward);
      loss = cross_entropy(model_->forward(Variable(batch.images)), batch.labels);
    }
    const ScopedSpan span(timeline(), Activity::kBackward);
    backward(loss, /*synchronize=*/i == way_.sync_every);
  }
  {
    const ScopedSpan span(timeline(), Activity::kOptimizer);
    optimizer_->step();
  }
  if (timeline_) cost.times = timeline_->end_step();
  ++step_;
  cost.wall_ms = static_cast<double>(Timeline::now_ns() - begin) * 1e-6;
  cost.cpu_ms = cpu_ms() - cpu_before;
  return cost;
}

}  // namespace lockstep::bench

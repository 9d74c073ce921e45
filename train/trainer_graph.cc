// Trainer: steps that are captured and replayed.
#include "lockstep/base/str.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/train/trainer.h"

namespace lockstep {
namespace {

// A graph keeps the memory of its step for itself: one for full batches, and one for what ends each
// epoch. Shapes that come after many others are not even counted.
constexpr int kMostGraphs = 2;
constexpr size_t kMostShapes = 64;

Tensor copy_of(const Tensor& x) { return x.defined() ? ops::clone(x) : x; }

}  // namespace

void Trainer::placed_step(int64_t micro_batches) {
  BatchSource& data = parts_.train_data;
  const Device device = parts_.ddp.parameters()[0].parameter.device();
  const bool weighs = data.weighs();
  if (weighs) load_weighed(micro_batches);
  std::string shapes;
  for (int64_t i = 0; i < micro_batches; ++i) {
    if (!weighs) load();
    const PlacedBatch placed = data.put(static_cast<size_t>(i), device);
    // A graph has the factors of its losses for good.
    shapes += str(placed.shapes, factor(i, micro_batches, false), " ",
                  factor(i, micro_batches, true), "; ");
    interval_samples_ += placed.samples;
    interval_tokens_ += placed.tokens;
    ++position_.batch;
  }
  Shaped unknown;
  const bool known = shaped_.contains(shapes) || shaped_.size() < kMostShapes;
  Shaped& shaped = known ? shaped_[shapes] : unknown;
  if (++shaped.seen == 2 && graphs_ < kMostGraphs) {
    shaped.captured.emplace(device);
    ++graphs_;
  }
  // What a graph does cannot be told apart from outside.
  const bool whole = shaped.captured && shaped.captured->ready();
  DeviceTimeline untold(nullptr, device);
  DeviceTimeline& spans = whole ? untold : spans_;
  const auto body = [&] {
    {
      const DeviceTimeline::Span span(spans, Activity::kOptimizer);
      parts_.optimizer.zero_grad();
    }
    shaped.results.clear();
    for (int64_t i = 0; i < micro_batches; ++i) {
      shaped.results.push_back(
          pass(i, micro_batches, spans, [&] { return data.run_placed(static_cast<size_t>(i)); }));
    }
    const DeviceTimeline::Span span(spans, Activity::kOptimizer);
    clip();
  };
  const auto update = [&] {
    const DeviceTimeline::Span span(spans, Activity::kOptimizer);
    advance();
  };
  if (!shaped.captured) {
    body();
    update();
  } else {
    const DeviceTimeline::Span span(whole ? spans_ : untold, Activity::kGraph);
    shaped.captured->run(body, update);
  }
  // Copied, because the next replay writes its losses to the same memory.
  for (int64_t i = 0; i < micro_batches; ++i) {
    const BatchResult& result = shaped.results[static_cast<size_t>(i)];
    const int64_t counted = weighs ? shares_.weight(i) : result.counted;
    if (counted > 0) meter_.add(copy_of(result.loss.data()), copy_of(result.correct), counted);
  }
  if (whole) {
    parts_.ddp.set_steps(position_.step + 1);  // the reducer counts those of the host alone
  } else {
    shaped.results.clear();
  }
}

}  // namespace lockstep

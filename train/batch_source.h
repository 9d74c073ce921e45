// BatchSource: what a trainer needs to know of its batches, whatever they hold. Images and text are
// two kinds of it.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/base/error.h"
#include "lockstep/data/loader.h"
#include "lockstep/tensor/memory.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// A mean over some of a batch's items.
struct LossPart {
  Variable loss = {};   // one element: the mean over `counted` items; undefined: no such part
  Tensor correct = {};  // of `counted`: one i64, where the loss is (ops::correct_count)
  int64_t counted = 0;
};

/// What is to be known of one batch.
struct BatchResult {
  Variable loss = {};    // one element: the mean over `counted`
  Tensor correct = {};   // of `counted`: one i64, where the loss is; undefined: none
  int64_t counted = 0;   // what the loss is about: images, masked tokens
  LossPart second = {};  // a further loss, added to the first: BERT's next sentences
  int64_t samples = 0;   // of the batch, for the throughput
  int64_t tokens = 0;    // likewise, without padding; 0: there are none
};

/// What is known of a batch before it is run.
struct PlacedBatch {
  std::string shapes = {};  // of its tensors; batches with the same text have the same shapes
  int64_t samples = 0;      // as BatchResult's
  int64_t tokens = 0;
};

/// The batches of one rank, epoch by epoch, and the loss of each. Batches are loaded, which is
/// waiting for data, and then run, which is forward, in the order in which they were loaded: a
/// trainer may load all batches of a step before it runs the first.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  /// In every epoch; the same on every rank.
  virtual int64_t batches() const = 0;
  /// Starts at batch `start` of epoch `epoch` (0 <= start <= batches()).
  virtual void begin_epoch(int64_t epoch, int64_t start = 0) = 0;
  /// Takes the next batch; false at the end of the epoch.
  virtual bool load() = 0;
  /// Forward and loss of the first batch that was loaded and not run yet. `counted` may be 0, by
  /// passing the model over without a loss; the trainer takes part in the other ranks' backward all
  /// the same, so that they do not wait for this one.
  virtual BatchResult run() = 0;

  /// run() in two halves, for steps that are captured (tensor/captured_step.h). The first takes the
  /// batch to `place` (0, 1, ...) on `device`: into memory that stays where it is, and that further
  /// batches of these shapes are brought to. The second runs what lies there, as often as wanted.
  virtual PlacedBatch put(size_t /*place*/, Device /*device*/) {
    throw UnsupportedError("the steps of this kind of batches cannot be captured");
  }
  virtual BatchResult run_placed(size_t /*place*/) { return {}; }

  /// Whether the first loss of one batch is about more items than that of another, so that the mean
  /// of their means is not the mean over all items. If so, weight() tells how many.
  virtual bool weighs() const { return false; }
  /// Of the batch that was loaded last.
  virtual int64_t weight() const { return 1; }
  /// The same of the second loss, for a source that weighs and has one.
  virtual bool weighs_second() const { return false; }
  virtual int64_t second_weight() const { return 1; }
};

/// What a loader (data/loader.h, data/text/text_batch.h) yields, and a function that gives loss,
/// correct and counted of a batch. Batches without samples, a rank's part of the last one with
/// LastBatch::kKeep, are not handed to it.
template <class Loader>
class LoaderSource : public BatchSource {
 public:
  using BatchOf = typename decltype(std::declval<Loader&>().next())::value_type;
  using Fn = std::function<BatchResult(const BatchOf&)>;

  /// `loader` must outlive this. With `weighs`, batches count by their samples: for training on
  /// some that are not full.
  LoaderSource(Loader& loader, Fn fn, bool weighs = false)
      : loader_(loader), fn_(std::move(fn)), weighs_(weighs) {}

  int64_t batches() const override { return loader_.batches(); }
  void begin_epoch(int64_t epoch, int64_t start) override {
    loaded_.clear();
    loader_.begin_epoch(epoch, start);
  }
  bool weighs() const override { return weighs_; }
  int64_t weight() const override { return loaded_.back().size(); }
  bool load() override {
    auto batch = loader_.next();
    if (batch) loaded_.push_back(*std::move(batch));
    return batch.has_value();
  }
  BatchResult run() override { return run(take()); }
  PlacedBatch put(size_t place, Device device) override {
    BatchOf batch = take();
    PlacedBatch placed{.samples = batch.size()};
    if constexpr (requires { batch.tokens; }) placed.tokens = batch.tokens;
    for (const Tensor* tensor : batch.tensors()) {
      placed.shapes += tensor->defined() ? str(tensor->shape(), ' ') : "- ";
    }
    std::vector<Tensor>& there = memory_[str(place, ": ", placed.shapes)];
    there.resize(batch.tensors().size());
    for (size_t i = 0; i < there.size(); ++i) {
      Tensor& tensor = *batch.tensors()[i];
      if (!tensor.defined()) continue;
      if (!there[i].defined()) there[i] = Tensor::empty(tensor.shape(), tensor.dtype(), device);
      device_memory(device).copy(there[i].mutable_raw(), tensor.raw(), tensor.nbytes());
      tensor = there[i];
    }
    if (placed_.size() <= place) placed_.resize(place + 1);
    placed_[place] = std::move(batch);
    return placed;
  }
  BatchResult run_placed(size_t place) override { return run(placed_.at(place)); }

 protected:
  const BatchOf& loaded_last() const { return loaded_.back(); }

 private:
  BatchOf take() {
    check(!loaded_.empty(), "LoaderSource: wanted load() before run()");
    BatchOf batch = std::move(loaded_.front());
    loaded_.pop_front();
    return batch;
  }
  BatchResult run(const BatchOf& batch) {
    if (batch.size() == 0) return {};
    BatchResult result = fn_(batch);
    result.samples = batch.size();
    return result;
  }

  Loader& loader_;
  Fn fn_;
  const bool weighs_;
  std::deque<BatchOf> loaded_;
  std::vector<BatchOf> placed_;
  std::map<std::string, std::vector<Tensor>> memory_;  // by place and shapes
};

using ImageBatches = LoaderSource<DataLoader>;
using BatchFn = ImageBatches::Fn;

}  // namespace lockstep

#include "lockstep/data/loader.h"

#include "lockstep/base/error.h"
#include "lockstep/base/thread_signals.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {

class DataLoader::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, const DistributedSampler& sampler,
       const LoaderOptions& options)
      : dataset_(std::move(dataset)),
        sampler_(sampler),
        options_(options),
        format_(dataset_->format()),
        slots_(static_cast<size_t>(std::max(1, options.prefetch))) {
    try {
      for (int i = 0; i < options.workers; ++i) {
        threads_.push_back(thread_without_signals([this] { work(); }));
      }
    } catch (...) {
      stop();
      throw;
    }
  }

  ~Impl() { stop(); }

  const Dataset& dataset() const { return *dataset_; }
  int64_t batches() const { return sampler_.batches(); }

  void begin_epoch(int64_t epoch, int64_t start_batch) {
    check(0 <= start_batch && start_batch <= batches(),
          "DataLoader::begin_epoch: wanted a start batch in [0, ", batches(), "], got ",
          start_batch);
    SampledEpoch order = sampler_.epoch(epoch);
    std::unique_lock lock(mutex_);
    abandon(lock);
    epoch_ = epoch;
    order_ = std::move(order);
    next_claimed_ = next_delivered_ = start_batch;
    for (Slot& slot : slots_) {
      slot.ready = false;
      slot.error = nullptr;
      if (!threads_.empty()) slot.memory = full_batch();
    }
    end_ = batches();
    work_to_do_.notify_all();
  }

  std::optional<Batch> next() {
    std::unique_lock lock(mutex_);
    if (next_delivered_ >= end_) return std::nullopt;
    const int64_t k = next_delivered_;
    if (threads_.empty()) {
      ++next_delivered_;
      try {
        return fill(full_batch(), order_.batch(k));
      } catch (...) {
        end_ = 0;
        throw;
      }
    }
    Slot& slot = slot_of(k);
    batch_ready_.wait(lock, [&] { return slot.ready; });
    if (slot.error != nullptr) {
      const std::exception_ptr error = slot.error;
      abandon(lock);
      std::rethrow_exception(error);
    }
    // The slot's next memory is taken here, not by a worker: the allocator then sees the same
    // sequence of requests in every run, however the threads are scheduled.
    slot.memory = full_batch();
    Batch batch = std::exchange(slot.batch, {});
    slot.ready = false;
    ++next_delivered_;
    work_to_do_.notify_one();
    return batch;
  }

 private:
  // Batch k is prepared in slot k % slots; that slot is free once batch k - slots was delivered.
  struct Slot {
    Batch memory;
    Batch batch;
    std::exception_ptr error;
    bool ready = false;
  };

  Slot& slot_of(int64_t k) { return slots_[static_cast<size_t>(k) % slots_.size()]; }

  Batch full_batch() const {
    const int64_t n = std::min(sampler_.options().batch_size, dataset_->size());
    return {Tensor::empty({n, format_.height, format_.width, format_.channels}, DType::kF32),
            Tensor::empty({n}, DType::kI64)};
  }

  // Reads the samples into the first rows of `memory`. A short batch is a slice of a full one: no
  // other size class.
  Batch fill(Batch memory, std::span<const int64_t> indices) const {
    float* image = memory.inputs.mutable_data<float>();
    int64_t* target = memory.targets.mutable_data<int64_t>();
    const auto pixels = static_cast<size_t>(format_.numel());
    for (int64_t index : indices) {
      const std::span<float> slot(image, pixels);
      *target++ = dataset_->sample(epoch_, index, slot);
      if (options_.transform) options_.transform(slot, format_, epoch_, index);
      image += pixels;
      if (abandoned_.load(std::memory_order_relaxed)) break;
    }
    const auto n = static_cast<int64_t>(indices.size());
    return {memory.inputs.slice(0, n), memory.targets.slice(0, n)};
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_to_do_.wait(lock, [&] {
        return stopping_ || next_claimed_ < std::min(end_, next_delivered_ + depth());
      });
      if (stopping_) return;
      const int64_t k = next_claimed_++;
      Slot& slot = slot_of(k);
      Batch memory = std::exchange(slot.memory, {});
      ++busy_;
      lock.unlock();
      Batch batch;
      std::exception_ptr error;
      try {
        batch = fill(std::move(memory), order_.batch(k));
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      slot.batch = std::move(batch);
      slot.error = error;
      slot.ready = true;
      --busy_;
      batch_ready_.notify_all();
    }
  }

  int64_t depth() const { return static_cast<int64_t>(slots_.size()); }

  // Ends the epoch and waits until no worker reads its order.
  void abandon(std::unique_lock<std::mutex>& lock) {
    end_ = 0;
    abandoned_ = true;
    batch_ready_.wait(lock, [&] { return busy_ == 0; });
    abandoned_ = false;
    for (Slot& slot : slots_) slot = Slot();
  }

  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      abandoned_ = true;
    }
    work_to_do_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const std::shared_ptr<const Dataset> dataset_;
  const DistributedSampler sampler_;
  const LoaderOptions options_;
  const ImageFormat format_;

  std::mutex mutex_;
  std::condition_variable work_to_do_;   // workers wait for a free slot
  std::condition_variable batch_ready_;  // next() waits for its batch, abandon() for the workers
  // Written under the mutex while no worker is busy; read by busy workers without it.
  int64_t epoch_ = 0;
  SampledEpoch order_;
  // Guarded by the mutex.
  int64_t end_ = 0;
  int64_t next_claimed_ = 0;
  int64_t next_delivered_ = 0;
  int busy_ = 0;
  bool stopping_ = false;
  std::vector<Slot> slots_;

  std::atomic<bool> abandoned_{false};  // a hint to stop early
  std::vector<std::thread> threads_;
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const DistributedSampler& sampler,
                       const LoaderOptions& options) {
  check(dataset != nullptr, "DataLoader: wanted a data set, got null");
  check(sampler.options().size == dataset->size(), "DataLoader: the sampler is for ",
        sampler.options().size, " samples, the data set has ", dataset->size());
  check(options.workers >= 0 && options.workers <= 256, "DataLoader: wanted 0 to 256 workers, got ",
        options.workers);
  check(options.prefetch >= 1 && options.prefetch <= 1024,
        "DataLoader: wanted 1 to 1024 batches of prefetch, got ", options.prefetch);
  impl_ = std::make_unique<Impl>(std::move(dataset), sampler, options);
}

DataLoader::~DataLoader() = default;

int64_t DataLoader::batches() const { return impl_->batches(); }

const Dataset& DataLoader::dataset() const { return impl_->dataset(); }

void DataLoader::begin_epoch(int64_t epoch, int64_t start_batch) {
  impl_->begin_epoch(epoch, start_batch);
}

std::optional<Batch> DataLoader::next() { return impl_->next(); }

}  // namespace lockstep

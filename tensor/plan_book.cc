#include "lockstep/tensor/plan_book.h"

#include "lockstep/base/error.h"

#include <atomic>

namespace lockstep {
namespace {

std::atomic<bool> timed{false};
std::atomic<PlanOriginSource> origin{nullptr};

}  // namespace

bool time_plans() { return timed.load(std::memory_order_relaxed); }
void set_time_plans(bool time) { timed.store(time, std::memory_order_relaxed); }

PlanOrigin plan_origin() {
  const PlanOriginSource source = origin;
  if (source == nullptr) {
    throw UnsupportedError(
        "plan_origin: this program was built without CUDA, which alone has plans; build it with "
        "--config=cuda");
  }
  return source();
}

PlanOriginSource set_plan_origin(PlanOriginSource source) { return origin.exchange(source); }

std::optional<std::string> PlanBook::find(const std::string& problem) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(problem);
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

void PlanBook::note(const std::string& problem, const std::string& plan) {
  const std::lock_guard lock(mutex_);
  entries_[problem] = plan;
  ++noted_;
}

void PlanBook::add(const Entries& entries) {
  const std::lock_guard lock(mutex_);
  entries_.insert(entries.begin(), entries.end());
}

PlanBook::Entries PlanBook::entries() const {
  const std::lock_guard lock(mutex_);
  return entries_;
}

int64_t PlanBook::noted() const {
  const std::lock_guard lock(mutex_);
  return noted_;
}

void PlanBook::clear() {
  const std::lock_guard lock(mutex_);
  entries_.clear();
  noted_ = 0;
}

PlanBook& plan_book() {
  static auto* book = new PlanBook;
  return *book;
}

}  // namespace lockstep

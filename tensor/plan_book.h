// PlanBook: which of a library's plans was found to be the fastest for a problem. cuDNN suggests
// several ways to run a convolution or attention, the one it takes for the best first; which one is
// the best only a run on the GPU tells. Nothing here needs a GPU.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace lockstep {

/// Whether the suggestions of a problem that is new to the process are timed against each other, as
/// torch.backends.cudnn.benchmark has it; false until set: the first that fits is taken. Each new
/// shape then costs some runs of each of a few plans, which pays where shapes repeat. Safe from any
/// thread.
///
/// Plans add in different orders, and two runs may time differently: the bits of a run repeat only
/// with the same choices, such as those of a file. The ranks of one run may choose differently:
/// each adds the same averaged gradients to the same parameters, so that replicas stay equal bit
/// for bit whatever plans computed a rank's share.
bool time_plans();
void set_time_plans(bool time);

/// Where a choice holds.
struct PlanOrigin {
  std::string library;  // "cuDNN 9.19.0"
  std::string device;   // "NVIDIA H200"
  bool operator==(const PlanOrigin&) const = default;
};

/// This process's, of Device::cuda(). Throws UnsupportedError where a program or machine lacks it.
PlanOrigin plan_origin();
/// What tells it; returns the one before. The CUDA library sets it before main.
using PlanOriginSource = PlanOrigin (*)();
PlanOriginSource set_plan_origin(PlanOriginSource source);

/// By a problem's name the name of the plan for it. Safe from any thread.
class PlanBook {
 public:
  using Entries = std::map<std::string, std::string>;

  std::optional<std::string> find(const std::string& problem) const;
  /// What a measurement has found; in place of what stood there.
  void note(const std::string& problem, const std::string& plan);
  /// What was found before, elsewhere. What stands there stays.
  void add(const Entries& entries);
  Entries entries() const;
  /// How often note() was called.
  int64_t noted() const;
  void clear();

 private:
  mutable std::mutex mutex_;
  Entries entries_;
  int64_t noted_ = 0;
};

/// The process's own: threads that meet the same problem, and a cache that had to be emptied, come
/// to the same plan.
PlanBook& plan_book();

}  // namespace lockstep

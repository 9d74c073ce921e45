// What was prepared for a problem (descriptors, a plan), kept by the numbers that make the problem.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace lockstep::cuda {

/// All numbers that shape a problem: extents, strides, flags, dtypes; zeros after the last.
template <size_t kLength>
using ProblemKey = std::array<int64_t, kLength>;

/// For one thread. A problem that nothing can be prepared for is remembered too, as null. A
/// problem seen before costs no allocation.
template <class Value, size_t kLength>
class ProblemCache {
 public:
  /// When `capacity` problems are kept and another comes, all are dropped, after settle() has
  /// waited for whatever may still use them. Shapes that never repeat must not fill the memory.
  ProblemCache(size_t capacity, void (*settle)()) : capacity_(capacity), settle_(settle) {}

  /// make() returns a std::unique_ptr<Value>. The result is valid until the next get().
  template <class Make>
  Value* get(const ProblemKey<kLength>& key, Make&& make) {
    const auto found = entries_.find(key);
    if (found != entries_.end()) return found->second.get();
    std::unique_ptr<Value> value = make();
    if (entries_.size() >= capacity_) {
      settle_();
      entries_.clear();
    }
    return entries_.emplace(key, std::move(value)).first->second.get();
  }

 private:
  size_t capacity_;
  void (*settle_)();
  std::map<ProblemKey<kLength>, std::unique_ptr<Value>> entries_;
};

}  // namespace lockstep::cuda

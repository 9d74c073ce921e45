// What every oneDNN call here shares: the engine, a stream for each thread, primitives kept by
// shape, and scratchpads that come from the tensor allocator. oneDNN's calls live in this folder
// only; it compiles against 2.x and 3.x.
//
// Threads: everything is per thread except the engine, so ranks that are threads may call at once.
// oneDNN's own cache of generated code is shared between threads, which makes the per-thread copies
// cheap.
#pragma once

#include "lockstep/tensor/dtype.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep::cpu::onednn {

/// The CPU engine; one for the process.
const dnnl::engine& engine();

/// oneDNN's name of f32, bf16, i32, u8. Throws ArgumentError for f64 and i64, which it lacks.
dnnl::memory::data_type data_type(DType dtype);

/// Attributes of every primitive here: the scratchpad is ours. With `accumulate` the result is
/// added to what the destination holds (a sum post-op).
dnnl::primitive_attr attributes(bool accumulate = false);

/// A primitive with the memory objects it runs on. Making one is slow (keep it in a Cache); running
/// one allocates only its scratchpad, through the tensor allocator.
class Call {
 public:
  struct Arg {
    int index;  // DNNL_ARG_SRC ...
    dnnl::memory::desc desc;
  };

  /// `scratchpad` is primitive_desc.scratchpad_desc().
  Call(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
       const std::vector<Arg>& args);

  /// Runs on `data`, one pointer for each argument in the constructor's order, and returns when it
  /// is done. What an argument's index calls an output is written through its pointer.
  void run(std::initializer_list<const void*> data);

 private:
  dnnl::primitive primitive_;
  size_t scratchpad_bytes_;
  std::vector<dnnl::memory> memories_;  // the arguments, then the scratchpad if there is one
  std::vector<dnnl_exec_arg_t> args_;
};

/// The key of a cached primitive: all numbers that shape it (extents, strides, flags, dtypes),
/// zeros after the last.
template <size_t kLength>
using Key = std::array<int64_t, kLength>;

/// Threads that OpenMP would use for the calling thread. Primitives divide the work when they are
/// made, so the caches keep one for each number of threads.
int threads();

/// At most `capacity` values by key; a new one takes the place of the one not used for longest.
/// Keep it thread_local.
template <class Value, size_t kLength>
class Cache {
 public:
  explicit Cache(size_t capacity = 512) : capacity_(capacity) {}

  /// The value of `key`, made by `make()` (which returns a std::unique_ptr<Value>, possibly null)
  /// the first time. Valid until the next get().
  template <class Make>
  Value* get(const Key<kLength>& key, Make&& make) {
    const FullKey full{key, threads()};
    auto found = entries_.find(full);
    if (found == entries_.end()) {
      std::unique_ptr<Value> value = make();
      if (entries_.size() >= capacity_) evict();
      found = entries_.emplace(full, Entry{std::move(value), 0}).first;
    }
    found->second.last_use = ++clock_;
    return found->second.value.get();
  }

 private:
  struct FullKey {
    Key<kLength> shape;
    int threads;
    bool operator==(const FullKey&) const = default;
  };
  struct Hash {
    size_t operator()(const FullKey& key) const {
      uint64_t h = static_cast<uint64_t>(key.threads);
      for (int64_t v : key.shape)
        h = (h ^ static_cast<uint64_t>(v)) * 0x9E3779B97F4A7C15u ^ (h >> 29);
      return static_cast<size_t>(h);
    }
  };
  struct Entry {
    std::unique_ptr<Value> value;
    uint64_t last_use;
  };

  void evict() {
    auto oldest = entries_.begin();
    for (auto it = entries_.begin(); it != entries_.end(); ++it) {
      if (it->second.last_use < oldest->second.last_use) oldest = it;
    }
    entries_.erase(oldest);
  }

  size_t capacity_;
  uint64_t clock_ = 0;
  std::unordered_map<FullKey, Entry, Hash> entries_;
};

}  // namespace lockstep::cpu::onednn

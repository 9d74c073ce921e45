// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). The i-th number of a stream depends on (seed, i) alone, so every device draws
// the same stream in any order and the whole state of a generator is two integers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// The four 32-bit words of counter block `block` under key `seed`.
constexpr std::array<uint32_t, 4> philox4x32(uint64_t seed, uint64_t block) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0,
                               0};
  uint32_t k0 = static_cast<uint32_t>(seed);
  uint32_t k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// A piece of a stream: number i of it is word (i % 4) of block (first() + i / 4).
struct PhiloxRange {
  uint64_t seed = 0;
  uint64_t first_block = 0;
  /// Null, or where a number lies, on the device that draws, that is to be added to first_block:
  /// Generator::set_base.
  const uint64_t* base = nullptr;

  constexpr uint64_t first() const { return first_block + (base != nullptr ? *base : 0); }
  constexpr uint32_t bits(int64_t i) const {
    return philox4x32(seed, first() + static_cast<uint64_t>(i) / 4)[static_cast<size_t>(i) % 4];
  }
  /// Uniform in [0, 1), a multiple of 2^-24.
  constexpr float uniform(int64_t i) const { return static_cast<float>(bits(i) >> 8) * 0x1p-24f; }
};

class Generator {
 public:
  struct State {
    uint64_t seed = 0;
    uint64_t next_block = 0;
    bool operator==(const State&) const = default;
  };

  explicit Generator(uint64_t seed) : state_{seed, 0} {}
  Generator(const Generator&) = default;
  Generator& operator=(const Generator&) = default;
  inline ~Generator();

  /// Reserves the next `count` numbers, rounded up to whole blocks of four.
  inline PhiloxRange take(int64_t count);

  State state() const { return state_; }
  void set_state(State state) { state_ = state; }

  /// For work that is captured and replayed (device_graph.h): from now on ranges are told from the
  /// place of now, which the replays find at `base`, an address on the device. Null: no longer.
  void set_base(const uint64_t* base) {
    base_ = base;
    origin_ = base != nullptr ? state_.next_block : 0;
  }

 private:
  State state_;
  const uint64_t* base_ = nullptr;
  uint64_t origin_ = 0;
};

/// While one lives, notes each generator that this thread draws from, with its state before; one
/// that ends its life meanwhile is forgotten. They can be nested.
class GeneratorLog {
 public:
  struct Entry {
    Generator* generator;
    Generator::State before;
  };

  GeneratorLog() : outer_(current_) { current_ = this; }
  ~GeneratorLog() { current_ = outer_; }
  GeneratorLog(const GeneratorLog&) = delete;
  GeneratorLog& operator=(const GeneratorLog&) = delete;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  friend class Generator;
  static void note(Generator& generator) {
    for (GeneratorLog* log = current_; log != nullptr; log = log->outer_) {
      bool known = false;
      for (const Entry& entry : log->entries_) known = known || entry.generator == &generator;
      if (!known) log->entries_.push_back({&generator, generator.state()});
    }
  }
  static void forget(const Generator* generator) {
    for (GeneratorLog* log = current_; log != nullptr; log = log->outer_)
      std::erase_if(log->entries_, [=](const Entry& e) { return e.generator == generator; });
  }

  static inline thread_local GeneratorLog* current_ = nullptr;
  GeneratorLog* outer_;
  std::vector<Entry> entries_;
};

Generator::~Generator() { GeneratorLog::forget(this); }

PhiloxRange Generator::take(int64_t count) {
  GeneratorLog::note(*this);
  const PhiloxRange range{state_.seed, state_.next_block - origin_, base_};
  state_.next_block += (static_cast<uint64_t>(count) + 3) / 4;
  return range;
}

}  // namespace lockstep

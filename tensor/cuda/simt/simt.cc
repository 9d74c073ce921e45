#include "lockstep/tensor/cuda/simt/simt.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/simt/fiber.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::simt {

dim3 block_index;
dim3 block_extent;
dim3 grid_extent;

namespace {

constexpr unsigned kWarp = 32;
constexpr int kPoison = 0xFF;  // NaN as a float, absurd as an index

/// Threads that meet: a warp or the block. A generation ends when all have come.
struct Barrier {
  unsigned members = 0;
  unsigned waiting = 0;
  uint64_t generation = 0;
  int line = 0;
};

struct Thread {
  Place at;
  unsigned warp = 0;
  bool done = false;
  Fiber fiber;
};

std::mutex launch_mutex;
std::vector<std::unique_ptr<Thread>> threads;
std::vector<std::pair<void*, size_t>> regions;
std::vector<std::byte> dynamic_memory;
std::vector<uint64_t> exchanged;
std::vector<Barrier> warps;
Barrier whole_block;
Thread* running = nullptr;
const std::function<void()>* kernel = nullptr;
std::string failure;
uint64_t progress = 0;  // grows when a thread ends or a barrier opens
unsigned schedule = 0;

void fail(const std::string& what) {
  if (failure.empty()) {
    failure =
        str("simt: block (", block_index.x, ", ", block_index.y, ", ", block_index.z, "): ", what);
  }
}

void arrive(Barrier& barrier, int line) {
  if (barrier.waiting == 0) barrier.line = line;
  if (barrier.line != line) {
    fail(str("threads meet at a barrier on line ", barrier.line, " and at one on line ", line));
  }
  if (++barrier.waiting == barrier.members) {
    barrier.waiting = 0;
    ++barrier.generation;
    ++progress;
    return;
  }
  // After a failure nobody is resumed: the stacks are abandoned where they stand.
  for (const uint64_t mine = barrier.generation; barrier.generation == mine;)
    running->fiber.leave();
}

void thread_main() {
  (*kernel)();
  running->done = true;
  ++progress;
  running->fiber.leave();
}

/// The order of the threads for one round.
void order_threads(std::vector<unsigned>& order) {
  std::iota(order.begin(), order.end(), 0u);
  if (schedule == 1) std::reverse(order.begin(), order.end());
  if (schedule < 2) return;
  uint32_t state = schedule;
  for (size_t i = order.size(); i > 1; --i) {
    state = state * 1664525u + 1013904223u;
    std::swap(order[i - 1], order[(state >> 8) % i]);
  }
}

void poison() {
  for (const auto& [memory, bytes] : regions) std::memset(memory, kPoison, bytes);
  std::fill(dynamic_memory.begin(), dynamic_memory.end(), std::byte{kPoison});
}

void run_block(unsigned count, std::vector<unsigned>& order) {
  poison();
  whole_block = {.members = count};
  for (unsigned w = 0; w < warps.size(); ++w)
    warps[w] = {.members = std::min(kWarp, count - w * kWarp)};
  for (unsigned i = 0; i < count; ++i) {
    Thread& thread = *threads[i];
    thread.at = {dim3(i % block_extent.x, i / block_extent.x % block_extent.y,
                      i / (block_extent.x * block_extent.y)),
                 i % kWarp};
    thread.warp = i / kWarp;
    thread.done = false;
    thread.fiber.start(thread_main);
  }
  for (unsigned left = count; left > 0;) {
    const uint64_t before = progress;
    left = 0;
    for (const unsigned i : order) {
      running = threads[i].get();
      if (!running->done) running->fiber.enter();
      if (!failure.empty()) throw Error(failure);
      if (!running->done) ++left;
    }
    if (left > 0 && progress == before) {
      throw Error(str("simt: block (", block_index.x, ", ", block_index.y, ", ", block_index.z,
                      "): ", left, " of ", count,
                      " threads wait at a barrier that the others never reach"));
    }
  }
}

}  // namespace

const Place& place() { return running->at; }

void set_schedule(unsigned seed) { schedule = seed; }

void sync_block(int line) { arrive(whole_block, line); }

void sync_warp(int line) { arrive(warps[running->warp], line); }

std::byte* dynamic_shared() { return dynamic_memory.data(); }

uint64_t exchange_in_warp(uint64_t bits, unsigned source, int line) {
  const unsigned first = running->warp * kWarp;
  exchanged[first + running->at.lane] = bits;
  sync_warp(line);
  // A lane that does not exist gives an undefined value; here the caller's own, as the hardware
  // does.
  const uint64_t got = source < warps[running->warp].members ? exchanged[first + source] : bits;
  sync_warp(line);
  return got;
}

unsigned vote_in_warp(bool vote, int line) {
  const unsigned first = running->warp * kWarp;
  exchanged[first + running->at.lane] = vote ? 1 : 0;
  sync_warp(line);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < warps[running->warp].members; ++lane)
    votes |= static_cast<unsigned>(exchanged[first + lane]) << lane;
  sync_warp(line);
  return votes;
}

void require_aligned(const void* memory, size_t bytes) {
  const auto rest = reinterpret_cast<uintptr_t>(memory) % bytes;
  if (rest == 0) return;
  fail(str("an access of ", bytes, " bytes, ", rest, " bytes from where it would be aligned"));
  running->fiber.leave();
}

SharedRegion::SharedRegion(void* memory, size_t bytes) {
  std::memset(memory, kPoison, bytes);
  regions.emplace_back(memory, bytes);
}

void run(dim3 grid, dim3 block, size_t dynamic_shared_bytes, const std::function<void()>& body) {
  const unsigned count = block.x * block.y * block.z;
  check(count > 0 && count <= 1024 && block.z <= 64,
        "simt: wanted 1 to 1024 threads in a block, 64 at most along z, got ", block.x, " x ",
        block.y, " x ", block.z);
  constexpr unsigned kMostAlongX = 0x7fffffff, kMostAlongYZ = 65535;
  check(grid.x > 0 && grid.x <= kMostAlongX && grid.y > 0 && grid.y <= kMostAlongYZ && grid.z > 0 &&
            grid.z <= kMostAlongYZ,
        "simt: a GPU refuses a grid of ", grid.x, " x ", grid.y, " x ", grid.z, " blocks");
  std::lock_guard lock(launch_mutex);
  kernel = &body;
  failure.clear();
  grid_extent = grid;
  block_extent = block;
  dynamic_memory.resize(dynamic_shared_bytes);
  exchanged.resize(count);
  warps.resize((count + kWarp - 1) / kWarp);
  while (threads.size() < count) threads.push_back(std::make_unique<Thread>());
  std::vector<unsigned> order(count);
  order_threads(order);
  for (block_index.z = 0; block_index.z < grid.z; ++block_index.z) {
    for (block_index.y = 0; block_index.y < grid.y; ++block_index.y) {
      for (block_index.x = 0; block_index.x < grid.x; ++block_index.x) run_block(count, order);
    }
  }
}

}  // namespace lockstep::simt

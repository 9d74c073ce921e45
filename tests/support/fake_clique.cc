#include "lockstep/tests/support/fake_clique.h"

#include "lockstep/distributed/comm/reduction.h"

#include <algorithm>
#include <cstring>

namespace lockstep::testing {
namespace {

constexpr int kPoison = 0xFF;

std::vector<std::byte> bytes_of(const void* data, size_t size) {
  const auto* first = static_cast<const std::byte*>(data);
  return {first, first + size};
}

bool alike(const FakeCall& a, const FakeCall& b) {
  return a.name == b.name && a.in_bytes == b.in_bytes && a.dtype == b.dtype && a.op == b.op &&
         a.root == b.root;
}

}  // namespace

void FakeClique::arrive(int rank) {
  const std::lock_guard lock(mutex_);
  here_[static_cast<size_t>(rank)] = true;
}

bool FakeClique::complete() const {
  const std::lock_guard lock(mutex_);
  return std::count(here_.begin(), here_.end(), true) == size();
}

std::shared_ptr<FakeClique::Meeting> FakeClique::meet(int64_t index, int rank, const FakeCall& call,
                                                      const std::atomic<bool>& ended) {
  std::vector<std::byte> input = bytes_of(call.in, call.in_bytes);
  std::unique_lock lock(mutex_);
  std::shared_ptr<Meeting>& place = meetings_[index];
  if (place == nullptr) {
    place = std::make_shared<Meeting>();
    place->calls.resize(here_.size());
    place->inputs.resize(here_.size());
  }
  const std::shared_ptr<Meeting> meeting = place;
  meeting->calls[static_cast<size_t>(rank)] = call;
  meeting->inputs[static_cast<size_t>(rank)] = std::move(input);
  if (++meeting->arrived == size()) {
    for (const FakeCall& other : meeting->calls) {
      meeting->alike = meeting->alike && alike(other, meeting->calls[0]);
    }
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return ended || (meeting->arrived == size() && meeting->alike); });
  if (++meeting->left == size()) meetings_.erase(index);
  return ended ? nullptr : meeting;
}

bool FakeClique::run(int64_t index, int rank, const FakeCall& call,
                     const std::atomic<bool>& ended) {
  const auto meeting = meet(index, rank, call, ended);
  auto* const out = static_cast<std::byte*>(call.out);
  if (meeting == nullptr) {
    std::memset(out, kPoison, call.out_bytes);
    return false;
  }
  if (call.name == "broadcast") {
    std::memcpy(out, meeting->inputs[static_cast<size_t>(call.root)].data(), call.out_bytes);
  } else if (call.name == "all_gather") {
    for (size_t r = 0; r < meeting->inputs.size(); ++r) {
      std::memcpy(out + r * call.in_bytes, meeting->inputs[r].data(), call.in_bytes);
    }
  } else {
    const size_t offset =
        call.name == "reduce_scatter" ? static_cast<size_t>(rank) * call.out_bytes : 0;
    std::vector<const std::byte*> inputs;
    for (const auto& input : meeting->inputs) inputs.push_back(input.data() + offset);
    const auto count = static_cast<int64_t>(call.out_bytes / size_of(call.dtype));
    comm::reduce_in_order(out, inputs, count, call.dtype, call.op);
  }
  return true;
}

void FakeClique::post(int from, int to, std::vector<std::byte> letter) {
  const std::lock_guard lock(mutex_);
  letters_[{from, to}].push_back(std::move(letter));
  changed_.notify_all();
}

bool FakeClique::fetch(int from, int to, void* out, size_t bytes, const std::atomic<bool>& ended) {
  std::unique_lock lock(mutex_);
  auto& letters = letters_[{from, to}];
  // One of another size never fits.
  changed_.wait(lock,
                [&] { return ended || (!letters.empty() && letters.front().size() == bytes); });
  if (ended) {
    std::memset(out, kPoison, bytes);
    return false;
  }
  std::memcpy(out, letters.front().data(), bytes);
  letters.pop_front();
  return true;
}

void FakeClique::wait_for_end(const std::atomic<bool>& ended) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ended.load(); });
}

void FakeClique::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

}  // namespace lockstep::testing

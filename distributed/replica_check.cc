#include "lockstep/distributed/replica_check.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lockstep {
namespace {

// Odd numbers without a pattern: the fractions of the golden ratio and of the square root of 3.
constexpr uint64_t kSpread = 0x9E3779B97F4A7C15u;
constexpr uint64_t kMix = 0xBB67AE8584CAA73Bu;

uint64_t add(uint64_t hash, uint64_t word) { return std::rotl(hash ^ (word * kSpread), 29) * kMix; }

/// What more than half of the ranks hold, else what rank 0 holds.
int64_t usual(const std::vector<int64_t>& hashes, bool& most) {
  for (const int64_t hash : hashes) {
    const auto holders = std::count(hashes.begin(), hashes.end(), hash);
    most = 2 * static_cast<size_t>(holders) > hashes.size();
    if (most) return hash;
  }
  return hashes[0];
}

}  // namespace

uint64_t hash_of_bytes(const Tensor& tensor) {
  const std::byte* const bytes = tensor.raw();
  const size_t count = tensor.nbytes(), whole = count / sizeof(uint64_t);
  uint64_t hash = add(kMix, count);
  for (size_t i = 0; i < whole; ++i) {
    uint64_t word;
    std::memcpy(&word, bytes + i * sizeof word, sizeof word);
    hash = add(hash, word);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, bytes + whole * sizeof rest, count % sizeof rest);
  hash = add(hash, rest);
  return hash ^ (hash >> 32);
}

std::optional<ReplicaDifference> first_replica_difference(std::span<const NamedTensor> tensors,
                                                          ProcessGroup& group) {
  const auto count = static_cast<int64_t>(tensors.size());
  if (group.size() == 1 || count == 0) return std::nullopt;
  const OpLabel label("replica check");
  std::vector<int64_t> mine;
  for (const NamedTensor& named : tensors) {
    const Tensor host = ops::to_device(named.tensor, Device::cpu());
    mine.push_back(std::bit_cast<int64_t>(hash_of_bytes(host)));
  }
  const Tensor all = Tensor::empty({group.size(), count}, DType::kI64);
  group.all_gather(all, Tensor::from(mine, {count}))->wait();
  const int64_t* const hash = all.data<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> held;
    for (int r = 0; r < group.size(); ++r) held.push_back(hash[r * count + i]);
    bool most = false;
    const int64_t wanted = usual(held, most);
    const auto odd =
        std::find_if(held.begin(), held.end(), [&](int64_t one) { return one != wanted; });
    if (odd == held.end()) continue;
    return ReplicaDifference{tensors[static_cast<size_t>(i)].name,
                             static_cast<int>(odd - held.begin()), most};
  }
  return std::nullopt;
}

std::vector<NamedTensor> values_of(std::span<const NamedParameter> parameters) {
  std::vector<NamedTensor> values;
  for (const auto& [name, parameter] : parameters) values.push_back({name, parameter.data()});
  return values;
}

void require_equal_replicas(std::span<const NamedParameter> parameters, ProcessGroup& group,
                            const std::string& when) {
  const auto difference = first_replica_difference(values_of(parameters), group);
  if (!difference) return;
  throw Error(str("replica check: ", when, " the ranks no longer hold one model: ",
                  difference->tensor, " on rank ", difference->rank, " is not that of ",
                  difference->from_most ? "the other ranks" : "rank 0",
                  "; docs/what_goes_wrong.md lists what does that"));
}

}  // namespace lockstep

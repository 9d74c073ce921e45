#include "lockstep/train/hook_state.h"

#include "lockstep/distributed/comm/rank_texts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cstring>

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr const char* kInfix = "/comm_hook/";

std::string prefix_of(int rank) { return str("rank", rank, kInfix); }

/// Names, dtypes and shapes, for rank 0 to make room.
std::string describe(std::span<const NamedTensor> state) {
  Json json = Json::array();
  for (const auto& [name, tensor] : state) {
    std::vector<int64_t> dims;
    for (int i = 0; i < tensor.ndim(); ++i) dims.push_back(tensor.dim(i));
    json.push_back({name, static_cast<int>(tensor.dtype()), dims});
  }
  return json.dump();
}

std::vector<NamedTensor> make_room(const std::string& description, int rank) {
  std::vector<NamedTensor> state;
  for (const Json& entry : Json::parse(description)) {
    const std::vector<int64_t> dims = entry.at(2);
    const Shape shape(dims.data(), static_cast<int>(dims.size()));
    const auto dtype = static_cast<DType>(entry.at(1).get<int>());
    state.push_back(
        {prefix_of(rank) + entry.at(0).get<std::string>(), Tensor::empty(shape, dtype)});
  }
  return state;
}

}  // namespace

std::vector<NamedTensor> gather_hook_state(std::span<const NamedTensor> mine, ProcessGroup& group) {
  const std::vector<std::string> texts = gather_texts(describe(mine), group);
  if (group.rank() != 0) {
    for (const NamedTensor& state : mine) group.send(state.tensor, 0)->wait();
    return {};
  }
  std::vector<NamedTensor> all;
  for (const auto& [name, tensor] : mine) all.push_back({prefix_of(0) + name, tensor});
  std::vector<std::vector<NamedTensor>> theirs;
  size_t longest = 0;
  for (int r = 1; r < group.size(); ++r) {
    theirs.push_back(make_room(texts[static_cast<size_t>(r)], r));
    longest = std::max(longest, theirs.back().size());
  }
  // Tensor by tensor and not rank by rank: the last rank then waits for a round of one tensor each,
  // which its time-out allows, and not for all of everyone's.
  for (size_t k = 0; k < longest; ++k) {
    for (int r = 1; r < group.size(); ++r) {
      const auto& state = theirs[static_cast<size_t>(r - 1)];
      if (k < state.size()) group.recv(state[k].tensor, r)->wait();
    }
  }
  for (auto& state : theirs) {
    for (NamedTensor& tensor : state) all.push_back(std::move(tensor));
  }
  return all;
}

std::vector<NamedTensor> hook_state_of(int rank, std::span<const NamedTensor> gathered) {
  const std::string prefix = prefix_of(rank);
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : gathered) {
    if (name.starts_with(prefix)) state.push_back({name.substr(prefix.size()), tensor});
  }
  return state;
}

bool is_hook_state(const std::string& name) {
  if (!name.starts_with("rank")) return false;
  size_t end = 4;
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end]))) ++end;
  return end > 4 && name.compare(end, std::strlen(kInfix), kInfix) == 0;
}

}  // namespace lockstep

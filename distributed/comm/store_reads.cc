#include "lockstep/distributed/comm/store_reads.h"

#include <charconv>

namespace lockstep::comm {

std::optional<std::string> value_of(Store& store, const std::string& key,
                                    std::chrono::milliseconds wait) {
  try {
    return store.get(key, wait);
  } catch (const StoreClosed&) {
    throw;
  } catch (const CommError& e) {
    if (std::string(e.what()).starts_with("Store::get")) return std::nullopt;
    throw;
  }
}

std::vector<int> ranks_of(const std::string& text) {
  std::vector<int> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int rank = 0;
    const auto [stop, error] = std::from_chars(at, end, rank);
    if (error != std::errc()) break;
    ranks.push_back(rank);
    at = stop;
    while (at < end && (*at == ',' || *at == ' ')) ++at;
  }
  return ranks;
}

}  // namespace lockstep::comm

// What is in a store now, without waiting.
#pragma once

#include "lockstep/distributed/comm/store.h"

#include <optional>
#include <string>
#include <vector>

namespace lockstep::comm {

/// The key's value once it is set; nothing if it is not within `wait`. Throws CommError like
/// Store::get() for all else.
std::optional<std::string> value_of(Store& store, const std::string& key,
                                    std::chrono::milliseconds wait = {});

/// "1, 3" -> {1, 3}: what Store::kGone holds.
std::vector<int> ranks_of(const std::string& text);

}  // namespace lockstep::comm

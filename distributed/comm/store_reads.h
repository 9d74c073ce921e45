// What is in a store now or soon, and who has gone.
#pragma once

#include "lockstep/distributed/comm/store.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::comm {

/// Within it the store's server has seen that a connection of a dead rank was closed.
inline constexpr std::chrono::milliseconds kUntilSeen{700};
/// How long a thread that watches waits for the store; it looks at most once in that time.
inline constexpr std::chrono::milliseconds kWatchAnswer{1000};

/// The key's value once it is set; nothing if it is not within `wait`. Throws CommError like
/// Store::get() for all else.
std::optional<std::string> value_of(Store& store, const std::string& key,
                                    std::chrono::milliseconds wait = {});

/// "1, 3" -> {1, 3}: what Store::kGone holds.
std::vector<int> ranks_of(const std::string& text);

}  // namespace lockstep::comm

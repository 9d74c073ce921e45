// What a rank tells the others about itself by way of the store: a heartbeat about once a second,
// and last words when it leaves. As values and as text; no store, no clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::comm {

/// What a rank does in one group.
struct GroupActivity {
  enum class Where : char { kOutside = 'o', kInCollective = 'c', kInLetter = 'l' };

  std::string group = {};
  Where where = Where::kOutside;
  int64_t done = 0;       // collectives that have ended; the number of the one that it is in
  int64_t ms = 0;         // how long it had been there when this was written
  std::string what = {};  // the operation that it is in, or its last one; empty: none so far

  bool operator==(const GroupActivity&) const = default;
};

struct Heartbeat {
  int64_t count = 0;  // of this rank's heartbeats before
  std::vector<GroupActivity> groups = {};

  bool operator==(const Heartbeat&) const = default;
};

struct LastWords {
  int rank = 0;
  bool failed = false;     // or it is done
  std::string group = {};  // which failed; empty: the rank leaves all of them
  std::string why = {};
  std::vector<std::pair<std::string, int64_t>> done = {};  // collectives that have ended, by group

  bool operator==(const LastWords&) const = default;
};

/// Lines with tabs between the fields; a tab or an end of line in a text becomes a blank.
std::string to_text(const Heartbeat& beat);
std::string to_text(const LastWords& words);
/// Nothing for what is no such text.
std::optional<Heartbeat> parse_heartbeat(std::string_view text);
std::optional<LastWords> parse_last_words(std::string_view text);

}  // namespace lockstep::comm

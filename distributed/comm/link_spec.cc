#include "lockstep/distributed/comm/link_spec.h"

#include "lockstep/base/error.h"

#include <charconv>
#include <cmath>
#include <set>
#include <utility>

namespace lockstep {
namespace {

constexpr const char* kExample =
    "wanted a link such as 1gbit,latency=50us,jitter=0.1,seed=7,straggler=1:20ms";

[[noreturn]] void refuse(std::string_view part, const char* what) {
  throw ArgumentError(str("parse_link: '", part, "' ", what, "; ", kExample));
}

/// The number at the beginning of `text`, and what follows it.
template <class T>
std::pair<T, std::string_view> number_and_rest(std::string_view text, std::string_view part) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) refuse(part, "has no number, or one out of range, where one should be");
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) refuse(part, "is not finite");
  }
  return {value, text.substr(static_cast<size_t>(end - text.data()))};
}

template <class T>
T number(std::string_view text, std::string_view part) {
  const auto [value, rest] = number_and_rest<T>(text, part);
  if (!rest.empty()) refuse(part, "has more than a number");
  return value;
}

double gbit_per_s(std::string_view part) {
  const auto [value, unit] = number_and_rest<double>(part, part);
  if (value <= 0) refuse(part, "is not a positive rate");
  if (unit == "gbit") return value;
  if (unit == "mbit") return value * 1e-3;
  if (unit == "kbit") return value * 1e-6;
  refuse(part, "is not a rate in gbit, mbit or kbit");
}

std::chrono::microseconds duration(std::string_view text, std::string_view part) {
  const auto [value, unit] = number_and_rest<double>(text, part);
  const double us = unit == "us" ? 1 : unit == "ms" ? 1e3 : unit == "s" ? 1e6 : 0;
  if (us == 0) refuse(part, "is not a time in us, ms or s");
  if (value < 0 || value * us > 3.6e9) refuse(part, "is not between 0 and an hour");
  return std::chrono::microseconds(std::llround(value * us));
}

void read_straggler(std::string_view value, std::string_view part, LinkSpec& link) {
  const size_t colon = value.find(':');
  if (colon == std::string_view::npos) refuse(part, "is not RANK:DELAY");
  link.straggler = number<int>(value.substr(0, colon), part);
  if (link.straggler < 0) refuse(part, "has a negative rank");
  const auto delay = duration(value.substr(colon + 1), part);
  link.straggler_delay = std::chrono::duration_cast<std::chrono::milliseconds>(delay);
  if (link.straggler_delay != delay) refuse(part, "is not in whole milliseconds");
}

}  // namespace

LinkSpec parse_link(std::string_view text) {
  LinkSpec link;
  std::set<std::string_view> seen;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    if (begin == 0) {
      link.gbit_per_s = gbit_per_s(part);
    } else {
      const size_t equals = std::min(part.find('='), part.size());
      const std::string_view key = part.substr(0, equals);
      const std::string_view value = part.substr(std::min(equals + 1, part.size()));
      if (!seen.insert(key).second) refuse(part, "comes twice");
      if (key == "latency") {
        link.latency = duration(value, part);
      } else if (key == "jitter") {
        link.jitter = number<double>(value, part);
        if (link.jitter < 0 || link.jitter > 100) refuse(part, "is not between 0 and 100");
      } else if (key == "seed") {
        link.seed = number<uint64_t>(value, part);
      } else if (key == "straggler") {
        read_straggler(value, part, link);
      } else {
        refuse(part, "is none of latency, jitter, seed, straggler");
      }
    }
    begin = end + 1;
  }
  check_link(link);
  return link;
}

std::string to_string(const LinkSpec& link) {
  std::string text = str(link.gbit_per_s, " Gbit/s, ", link.latency.count(), " us");
  if (link.jitter > 0) text += str(", jitter ", link.jitter, " (seed ", link.seed, ")");
  if (link.straggler >= 0) {
    text += str(", rank ", link.straggler, " ", link.straggler_delay.count(), " ms late");
  }
  return text;
}

void check_link(const LinkSpec& link) {
  // Below a kbit/s a bucket's time would leave the range of a clock.
  check(std::isfinite(link.gbit_per_s) && link.gbit_per_s >= 1e-6,
        "LinkSpec: wanted a rate of at least 1e-6 Gbit/s, got ", link.gbit_per_s);
  check(link.latency.count() >= 0 && link.straggler_delay.count() >= 0,
        "LinkSpec: wanted no negative times, got a latency of ", link.latency.count(),
        " us and a delay of ", link.straggler_delay.count(), " ms");
  check(std::isfinite(link.jitter) && link.jitter >= 0, "LinkSpec: wanted a jitter >= 0, got ",
        link.jitter);
}

}  // namespace lockstep

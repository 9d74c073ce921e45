#include "lockstep/base/failpoint.h"

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string>

namespace lockstep {

bool detail::failpoint_set = false;

namespace {

struct Point {
  std::string name;
  int at = 1;
  int signal = SIGKILL;
  std::atomic<int> hits{0};
};

int signal_of(std::string_view name) {
  return name == "kill" ? SIGKILL : name == "term" ? SIGTERM : name == "usr1" ? SIGUSR1 : 0;
}

Point& point() {
  static Point p;
  return p;
}

// A process is told by its environment before main() begins.
const bool kReadEnvironment = [] {
  if (const char* value = std::getenv("LOCKSTEP_FAILPOINT")) {
    try {
      set_failpoint(value);
    } catch (const ArgumentError& error) {
      log_warning(str("LOCKSTEP_FAILPOINT is ignored: ", error.what()));
    }
  }
  return true;
}();

}  // namespace

void set_failpoint(std::string_view specification) {
  std::string_view name = specification;
  int signal = SIGKILL;
  if (const size_t colon = name.find(':'); colon != name.npos) {
    signal = signal_of(name.substr(colon + 1));
    check(signal != 0, "set_failpoint: wanted <name>[@k][:kill|term|usr1], got ", specification);
    name = name.substr(0, colon);
  }
  int at = 1;
  if (const size_t sign = name.find('@'); sign != name.npos) {
    const char* end = name.data() + name.size();
    const auto [stopped, error] = std::from_chars(name.data() + sign + 1, end, at);
    check(error == std::errc() && stopped == end && at >= 1,
          "set_failpoint: wanted a count from 1 after '@', got ", specification);
    name = name.substr(0, sign);
  }
  point().name = name;
  point().at = at;
  point().signal = signal;
  point().hits = 0;
  detail::failpoint_set = !name.empty();
}

void detail::failpoint_reached(std::string_view name) {
  if (name == point().name && ++point().hits == point().at) std::raise(point().signal);
}

}  // namespace lockstep

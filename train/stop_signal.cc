#include "lockstep/train/stop_signal.h"

#include "lockstep/base/str.h"

#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace lockstep {
namespace {

constexpr std::array kSignals{SIGTERM, SIGUSR1};
constexpr int64_t kSameRequestNs = 1'000'000'000;

// What a handler may touch. A signal's handler runs with both signals blocked, but in any thread.
std::atomic<int> noted_signal{0};
std::atomic<int64_t> noted_at_ns{0};
std::array<struct sigaction, kSignals.size()> actions_before;

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

void note(int signal) {
  int none = 0;
  const int64_t now = now_ns();
  if (noted_signal.compare_exchange_strong(none, signal)) {
    noted_at_ns = now;
  } else if (const int64_t first = noted_at_ns; first != 0 && now - first >= kSameRequestNs) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // delivered when this returns
  }
}

}  // namespace

StopSignals::StopSignals() {
  noted_signal = 0;
  noted_at_ns = 0;
  for (size_t k = 0; k < kSignals.size(); ++k) {
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (const int signal : kSignals) sigaddset(&action.sa_mask, signal);
    ::sigaction(kSignals[k], &action, &actions_before[k]);
    if (actions_before[k].sa_handler == SIG_IGN) {
      ::sigaction(kSignals[k], &actions_before[k], nullptr);
    }
  }
}

StopSignals::~StopSignals() {
  if (noted() != 0) return;
  for (size_t k = 0; k < kSignals.size(); ++k) {
    ::sigaction(kSignals[k], &actions_before[k], nullptr);
  }
}

int StopSignals::noted() const { return noted_signal; }

std::string name_of_signal(int signal) {
  switch (signal) {
    case SIGTERM:
      return "SIGTERM";
    case SIGUSR1:
      return "SIGUSR1";
    default:
      return str("signal ", signal);
  }
}

}  // namespace lockstep

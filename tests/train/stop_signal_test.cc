// Signals are noted, not lost, and not obeyed twice.
#include "lockstep/train/stop_signal.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

namespace lockstep {
namespace {

/// How a child that runs `body` ends: its exit code, or 128 + the signal.
int end_of(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("the first signal is noted, and another within a second changes nothing") {
  CHECK(end_of([] {
          const StopSignals signals;
          if (signals.noted() != 0) return 1;
          std::raise(SIGUSR1);
          std::raise(SIGTERM);
          std::raise(SIGTERM);
          return signals.noted();
        }) == SIGUSR1);
  CHECK(end_of([] {
          const StopSignals signals;
          std::raise(SIGTERM);
          return signals.noted();
        }) == SIGTERM);
}

TEST_CASE("one that comes later ends the process at once") {
  for (const int second : {SIGTERM, SIGUSR1}) {
    CHECK(end_of([second] {
            const StopSignals signals;
            std::raise(SIGTERM);
            std::this_thread::sleep_for(std::chrono::milliseconds(1100));
            std::raise(second);
            return 0;
          }) == 128 + second);
  }
}

TEST_CASE("before and after, signals do what they did; a noted one is never cut short") {
  CHECK(end_of([] {
          { const StopSignals signals; }
          std::raise(SIGTERM);
          return 0;
        }) == 128 + SIGTERM);
  CHECK(end_of([] {
          {
            const StopSignals signals;
            std::raise(SIGTERM);
          }
          std::raise(SIGTERM);
          return 3;
        }) == 3);
  CHECK(end_of([] {
          std::signal(SIGUSR1, SIG_IGN);
          const StopSignals signals;
          std::raise(SIGUSR1);
          return signals.noted();
        }) == 0);
  CHECK(name_of_signal(SIGUSR1) == "SIGUSR1");
  CHECK(name_of_signal(SIGINT) == "signal 2");
}

}  // namespace
}  // namespace lockstep

// Being asked to stop: a program notes SIGTERM and SIGUSR1 instead of ending by them, the trainer
// ends at a step that all ranks agree on, and the program's exit code says by which signal.
#pragma once

#include <string>

namespace lockstep {

/// While one lives, SIGTERM (an end is wanted, by whomever) and SIGUSR1 (Slurm: the time is nearly
/// up) are noted. One at a time in a process; for programs, as handlers are the process's. A signal
/// that the process was started to ignore stays ignored. The same or the other signal once more, a
/// second or more after the first, ends the process at once; within that second it counts for the
/// same request, as launchers and batch systems often send one twice.
///
/// Once a signal was noted the handlers stay: a late duplicate must not cut the exit short.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first that came, 0: none.
  int noted() const;
};

/// Thrown through a program by a training that was stopped as asked. No std::exception, so that
/// nobody takes it for a failure.
struct StoppedBySignal {
  int signal = 0;
  std::string message;  // "stopped by SIGTERM at step 7; ...", for one rank to print
};

/// "SIGTERM", "SIGUSR1", or "signal N".
std::string name_of_signal(int signal);

}  // namespace lockstep

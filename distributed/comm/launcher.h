// Starting the ranks of a job on this machine (on several: one launcher on each), watching them,
// and ending all of them together.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct LaunchOptions {
  int nproc = 1;
  std::vector<std::string> command = {};  // program and arguments; the program is looked up in PATH
  int nnodes = 1;                         // machines, with `nproc` ranks on each
  int node_rank = 0;                      // of this machine; rank 0 is on machine 0
  std::string master_addr = {};           // machine 0; empty, for one machine: by loopback
  uint16_t master_port = 0;               // 0, for one machine: a free one
  /// Where the output of ranks 1, 2, ... is appended, to rank1.log, rank2.log, ...; made if
  /// missing. "-": the console. Empty: a new temporary folder, which stays, and is
  /// named on standard error at the end, only if one of them has written something.
  std::string log_dir = {};
  /// How long ranks have to end before SIGKILL, once another has failed or SIGINT or SIGHUP has
  /// come.
  std::chrono::milliseconds grace{700};
  /// The same after SIGTERM and SIGUSR1, by which ranks may be asked to save first.
  std::chrono::milliseconds stop_grace{30'000};
  /// On one machine: how many times the whole job is started again when a rank has died or failed,
  /// to go on from what the program has saved. Not after a usage error (exit code 2), which would
  /// come again, and not once the job was asked to end.
  int max_restarts = 0;
  /// Each of them with one rank less, down to one: for memory or a device that is gone.
  bool restart_with_fewer = false;
};

/// Runs `command` once for each rank with RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
/// MASTER_ADDR, MASTER_PORT and LOCKSTEP_TOKEN set (a new one; on several machines job_token()),
/// and OMP_NUM_THREADS = cores / nproc if it is unset. Lines of output get "[rank N] " before them;
/// rank 0 keeps the console, its output as it is when that is a terminal.
///
/// Returns 0 once all ranks have returned 0. As soon as one fails, or SIGINT or SIGHUP
/// arrives here, the others are ended within two seconds, one line on standard error says which
/// rank it was, how it ended and its last line of standard error, and the result is its exit code,
/// or 128 + the signal. No rank outlives the call, not even when this process is killed.
///
/// SIGTERM and SIGUSR1 are handed on to the ranks, which then have `stop_grace` to save and end:
/// the result is 128 + the signal, or 0 when all were done and returned 0, or as above when one
/// fails at it. The same signal again within a second counts for the same request; any other, and
/// every later one, kills the ranks at once. A rank that exits with 128 + SIGTERM or 128 + SIGUSR1
/// by itself has been asked to by another way (a batch system); the others have `stop_grace` then,
/// too.
///
/// For programs: SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD are blocked in the calling thread
/// during the call, so other threads must not be running. Throws ArgumentError for wrong options,
/// IoError if something cannot be started or a log not be written.
int launch(const LaunchOptions& options);

/// For a program's own --nproc: launch() of this very program (/proc/self/exe) with `arguments`.
/// The ranks find RANK set.
int launch_self(LaunchOptions options, const std::vector<std::string>& arguments);

/// Whether this process is a rank that a launcher has started, whichever it was. Throws
/// ArgumentError, as rank_from_env() does.
bool launched();

}  // namespace lockstep

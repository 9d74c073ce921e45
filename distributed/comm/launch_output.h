// Where the output of a launcher's ranks goes: to the console, line by line, or into a log for each
// rank. Internal to distributed/comm.
#pragma once

#include "lockstep/distributed/comm/line_relay.h"
#include "lockstep/distributed/comm/socket.h"

#include <poll.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep::comm {

/// The launcher's ends of one rank's output.
class RankOutput {
 public:
  /// What to poll for.
  void add_to(std::vector<pollfd>& fds) const;
  /// Hands on what is there now, and no more than a little: a rank that floods its output must not
  /// keep the others waiting.
  void relay();
  /// Once the rank has ended: the rest, and no more.
  void finish();
  /// Of its standard error.
  const std::string& last_line() const { return streams_.back().relay->last_line(); }
  bool has_log() const { return log_.valid(); }

 private:
  friend class LaunchOutput;
  struct Stream {
    Socket pipe;
    std::unique_ptr<LineRelay> relay;
  };
  static void drain(Stream& stream);

  Socket log_;
  std::vector<Stream> streams_;  // the last one is its standard error
};

/// What the rank writes to; the writers are for as long as it takes to start it.
struct RankWriters {
  int out_fd = 1;
  int err_fd = 2;
  std::vector<Socket> writers;
};

class LaunchOutput {
 public:
  /// `log_dir` as in LaunchOptions; `first_rank` is this machine's first among all. Throws IoError
  /// if the folder cannot be made.
  LaunchOutput(std::string log_dir, int nproc, int first_rank);
  /// A folder that nobody asked for stays only if a rank has written something.
  ~LaunchOutput();
  LaunchOutput(const LaunchOutput&) = delete;
  LaunchOutput& operator=(const LaunchOutput&) = delete;

  /// Of this machine's rank `index`. Throws IoError if its log cannot be written.
  RankOutput open(int index, RankWriters& writers) const;
  std::string log_path(int index) const;
  /// Whether it has written something.
  bool has_log(int index) const;

 private:
  std::string log_dir_;
  const int nproc_;
  const int first_rank_;
  bool own_log_dir_ = false;  // made by us, under the temporary folder
};

}  // namespace lockstep::comm

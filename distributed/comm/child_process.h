// Starting one program as a child in a process group of its own, that dies with this process.
#pragma once

#include "lockstep/distributed/comm/socket.h"

#include <sys/types.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::comm {

struct ChildOptions {
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  int out_fd = 1;                                                // becomes its standard output
  int err_fd = 2;                                                // becomes its standard error
  sigset_t signal_mask;                                          // that it starts with
};

/// Returns its process id, which is its process group's too. Its standard input is /dev/null. It
/// gets SIGKILL when this process ends in whatever way. Throws IoError if the program cannot be
/// started.
pid_t start_child(const ChildOptions& options);

/// A pipe: {read end, write end}, both closed on exec, the read end non-blocking.
std::pair<Socket, Socket> make_pipe();

}  // namespace lockstep::comm

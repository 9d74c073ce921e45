// The signals of a launcher. Internal to distributed/comm.
#pragma once

#include "lockstep/distributed/comm/socket.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace lockstep::comm {

/// The signals that concern a launcher, blocked and read from a descriptor while this lives.
class LaunchSignals {
 public:
  LaunchSignals() {
    sigemptyset(&set_);
    for (int s : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set_, s);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
    // A parent may have left SIGCHLD ignored. The kernel would reap the ranks itself then, and
    // nobody would ever learn that they have ended.
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    ::sigaction(SIGCHLD, &standard, &child_before_);
    fd_ = Socket(::signalfd(-1, &set_, SFD_NONBLOCK | SFD_CLOEXEC));
  }
  ~LaunchSignals() {
    ::sigaction(SIGCHLD, &child_before_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  int fd() const { return fd_.fd(); }
  const sigset_t& mask_before() const { return before_; }
  /// A signal that asks to end, 0 for none; SIGCHLD is swallowed.
  int take() {
    int asked = 0;
    signalfd_siginfo info;
    while (::read(fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      if (info.ssi_signo != SIGCHLD) asked = static_cast<int>(info.ssi_signo);
    }
    return asked;
  }

 private:
  sigset_t set_;
  sigset_t before_;
  struct sigaction child_before_;
  Socket fd_;
};

}  // namespace lockstep::comm

// The signals of a launcher. Internal to distributed/comm.
#pragma once

#include "lockstep/distributed/comm/child_process.h"
#include "lockstep/distributed/comm/socket.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

namespace lockstep::comm {

/// The signals that concern a launcher, read from a descriptor while this lives; one at a time in a
/// process. Handlers write to a pipe: a descriptor of blocked signals would lose those that the
/// kernel gives to another thread of the program, as it may as soon as there is one.
class LaunchSignals {
 public:
  LaunchSignals() {
    auto [read, write] = make_pipe();
    ::fcntl(write.fd(), F_SETFL, O_NONBLOCK);
    read_ = std::move(read);
    write_ = std::move(write);
    noted_at_.store(write_.fd());
    sigset_t set;
    sigemptyset(&set);
    for (size_t k = 0; k < kSignals.size(); ++k) {
      struct sigaction action {};
      action.sa_handler = note;
      action.sa_flags = SA_RESTART;
      sigfillset(&action.sa_mask);
      ::sigaction(kSignals[k], &action, &actions_before_[k]);
      // As nohup wants it. A SIGCHLD that a parent has left ignored is needed all the same.
      const bool can_be_ignored = kSignals[k] == SIGHUP || kSignals[k] == SIGUSR1;
      if (can_be_ignored && actions_before_[k].sa_handler == SIG_IGN) {
        ::sigaction(kSignals[k], &actions_before_[k], nullptr);
      }
      sigaddset(&set, kSignals[k]);
    }
    pthread_sigmask(SIG_UNBLOCK, &set, &mask_before_);
  }
  ~LaunchSignals() {
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
    for (size_t k = 0; k < kSignals.size(); ++k) {
      ::sigaction(kSignals[k], &actions_before_[k], nullptr);
    }
    noted_at_.store(-1);
  }
  LaunchSignals(const LaunchSignals&) = delete;
  LaunchSignals& operator=(const LaunchSignals&) = delete;

  int fd() const { return read_.fd(); }
  const sigset_t& mask_before() const { return mask_before_; }
  /// A signal that asks to end, 0 for none; SIGCHLD is swallowed.
  int take() {
    int asked = 0;
    unsigned char signal = 0;
    while (::read(fd(), &signal, 1) == 1) {
      if (signal != SIGCHLD) asked = signal;
    }
    return asked;
  }

 private:
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};

  static void note(int signal) {
    const int before = errno;
    const auto byte = static_cast<unsigned char>(signal);
    [[maybe_unused]] const ssize_t n = ::write(noted_at_.load(), &byte, 1);
    errno = before;
  }

  static inline std::atomic<int> noted_at_{-1};

  Socket read_;
  Socket write_;
  std::array<struct sigaction, kSignals.size()> actions_before_;
  sigset_t mask_before_;
};

}  // namespace lockstep::comm

// The library's own threads take no signals: a program's handlers run in the program's threads, and
// a write to a dead peer from such a thread cannot end the process by SIGPIPE.
#pragma once

#include <thread>
#include <utility>

#include <csignal>

namespace lockstep {

/// Blocks all signals in this thread, and in threads that it starts, while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

template <class Fn>
std::thread thread_without_signals(Fn&& fn) {
  const SignalsBlocked blocked;
  return std::thread(std::forward<Fn>(fn));
}

}  // namespace lockstep

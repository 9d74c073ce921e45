#include "lockstep/distributed/comm/child_process.h"

#include "lockstep/base/error.h"
#include "lockstep/base/thread_signals.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

extern char** environ;

namespace lockstep::comm {
namespace {

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool replaced = false;
    for (const auto& [name, value] : added) replaced |= text.starts_with(name + "=");
    if (!replaced) result.push_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

/// In the child, between fork and exec: system calls only.
[[noreturn]] void become(const ChildOptions& options, char* const* argv, char* const* env,
                         pid_t parent, int report_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before the line above
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0 && ::dup2(null, 0) >= 0 && ::dup2(options.out_fd, 1) >= 0 &&
      ::dup2(options.err_fd, 2) >= 0) {
    if (null > 2) ::close(null);
    // Ignored signals stay ignored across exec; the ranks start with the defaults.
    for (int s : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(s, SIG_DFL);
    // Its process group is not the terminal's foreground one; with `stty tostop` writing there
    // would stop it.
    ::signal(SIGTTOU, SIG_IGN);
    ::sigprocmask(SIG_SETMASK, &options.signal_mask, nullptr);
    ::execvpe(argv[0], argv, env);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t n = ::write(report_fd, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

std::pair<Socket, Socket> make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw IoError(str("launch: pipe: ", std::strerror(errno)));
  ::fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return {Socket(fds[0]), Socket(fds[1])};
}

pid_t start_child(const ChildOptions& options) {
  std::vector<std::string> arguments = options.command;
  std::vector<std::string> environment = environment_with(options.environment);
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> env = pointers(environment);
  // Closed by a successful exec; otherwise the reason comes through.
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) throw IoError(str("launch: pipe: ", std::strerror(errno)));
  const Socket report_read(report[0]);
  Socket report_write(report[1]);

  // The child has the launcher's handlers until it has set its own dispositions.
  const SignalsBlocked blocked;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw IoError(str("launch: fork: ", std::strerror(errno)));
  if (pid == 0) become(options, argv.data(), env.data(), parent, report_write.fd());
  ::setpgid(pid, pid);  // in both, so that it is true for both from here on
  report_write.close();

  int error = 0;
  ssize_t n = 0;
  while ((n = ::read(report_read.fd(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n == 0) return pid;
  ::waitpid(pid, nullptr, 0);
  throw IoError(str("launch: cannot start '", options.command[0], "': ", std::strerror(error)));
}

}  // namespace lockstep::comm

#include "lockstep/tests/support/process.h"

#include "lockstep/tests/support/eventually.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace lockstep::testing {
namespace {

std::string contents(int fd) {
  struct stat info {};
  ::fstat(fd, &info);
  std::string text(static_cast<size_t>(info.st_size), '\0');
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return text;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const ProcessOptions& options) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  // Files in memory: no pipe can fill up, and no thread has to read.
  out_fd_ = ::memfd_create("out", MFD_CLOEXEC);
  err_fd_ = ::memfd_create("err", MFD_CLOEXEC);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ > 0) {
    ::setpgid(pid_, pid_);
    return;
  }
  ::setpgid(0, 0);
  ::dup2(::open("/dev/null", O_RDONLY), 0);
  ::dup2(out_fd_, 1);
  ::dup2(err_fd_, 2);
  for (const auto& [name, value] : options.env) {
    value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
  }
  if (options.file_size_limit >= 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{static_cast<rlim_t>(options.file_size_limit),
                       static_cast<rlim_t>(options.file_size_limit)};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

Process::~Process() {
  if (!ended_) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_fd_);
  ::close(err_fd_);
}

bool Process::ends_within(std::chrono::milliseconds time) {
  return eventually(
      [this] {
        int status = 0;
        if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
          ended_ = true;
          exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        return ended_;
      },
      time);
}

int Process::wait(std::chrono::milliseconds time) {
  ends_within(time);
  return exit_code_;
}

std::string Process::out() const { return contents(out_fd_); }
std::string Process::err() const { return contents(err_fd_); }

std::vector<pid_t> Process::children() const {
  const std::string task = "/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_);
  std::ifstream in(task + "/children");
  std::vector<pid_t> pids;
  for (pid_t pid = 0; in >> pid;) pids.push_back(pid);
  return pids;
}

std::string program_path(const std::string& path) {
  const char* root = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  if (root == nullptr || workspace == nullptr) return path;
  return std::string(root) + "/" + workspace + "/" + path;
}

}  // namespace lockstep::testing

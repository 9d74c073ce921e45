#include "lockstep/tests/distributed/subprocess.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

namespace lockstep::testing {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::string make_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  return pattern;
}

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

Subprocess::Subprocess(std::vector<std::string> command, const Environment& environment)
    : folder_(make_folder()) {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ != 0) return;
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "OMP_NUM_THREADS"}) ::unsetenv(name);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::dup2(::open((folder_ + "/out").c_str(), O_WRONLY | O_CREAT, 0600), 1);
  ::dup2(::open((folder_ + "/err").c_str(), O_WRONLY | O_CREAT, 0600), 2);
  ::execv(argv[0], argv.data());
  ::_exit(126);
}

Subprocess::~Subprocess() {
  if (result_ < 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::filesystem::remove_all(folder_);
}

int Subprocess::wait(int milliseconds) {
  eventually(
      [this] {
        int status = 0;
        if (result_ < 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) {
          result_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
        return result_ >= 0;
      },
      milliseconds);
  return result_;
}

std::string Subprocess::out() const { return contents(folder_ + "/out"); }
std::string Subprocess::err() const { return contents(folder_ + "/err"); }

std::string program(const std::string& path_in_repository) {
  const std::string path = std::filesystem::absolute(path_in_repository).string();
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

}  // namespace lockstep::testing

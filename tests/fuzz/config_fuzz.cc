// Config files of a program that has options of every kind and a command: each is taken, or refused
// with one line and exit code 2.

// sources: train/command_line.cc

#include "lockstep/train/command_line.h"

#include <sys/mman.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

/// What is printed while it lives, instead of where it belongs.
class Caught {
 public:
  explicit Caught(std::FILE*& stream) : stream_(stream), before_(stream) {
    stream = open_memstream(&text_, &size_);
  }
  ~Caught() {
    std::fclose(stream_);
    stream_ = before_;
    std::free(text_);
  }
  size_t lines() {
    std::fflush(stream_);
    return static_cast<size_t>(std::count(text_, text_ + size_, '\n'));
  }

 private:
  std::FILE*& stream_;
  std::FILE* before_;
  char* text_ = nullptr;
  size_t size_ = 0;
};

struct Options {
  int64_t batch_size = 1;
  double lr = 0.5;
  bool nesterov = false, augment = false;
  std::string name, checkpoint;
  std::vector<double> mean;
  std::optional<int64_t> size;
  int top = 5;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("config", 0);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) abort();

  Options o;
  CLI::App app{"A program.", "program"};
  app.add_option("--batch-size", o.batch_size)->check(lockstep::within(1, 1e15, "a number"));
  app.add_option("--lr", o.lr);
  app.add_flag("--nesterov,!--no-nesterov", o.nesterov);
  app.add_flag("--augment", o.augment);
  app.add_option("--name", o.name)->check(CLI::IsMember({"a b", "c"}));
  app.add_option("--mean", o.mean)->delimiter(',')->expected(3, 3);
  app.add_option("--size", o.size)->check(CLI::Range(1, 100));
  app.set_version_flag("--version", "1");
  CLI::App* command = app.add_subcommand("evaluate", "A command.");
  command->add_option("checkpoint", o.checkpoint)->required();
  command->add_option("--top", o.top);
  app.require_subcommand(0, 1);
  lockstep::add_config_option(app);

  Caught errors(stderr);
  const auto code =
      lockstep::parse_command_line(app, {"--config", "/proc/self/fd/" + std::to_string(file)});
  if (code && (*code != 2 || errors.lines() != 1)) abort();
  if (!code && errors.lines() != 0) abort();
  return 0;
}

#include "lockstep/base/log.h"

#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

namespace lockstep {
namespace {

void write_to_stderr(LogLevel level, std::string_view message) {
  std::string line(level == LogLevel::kWarning ? "warning: " : "");
  line.append(message).push_back('\n');
  std::fwrite(line.data(), 1, line.size(), stderr);
}

struct State {
  std::mutex mutex;
  LogSink sink = write_to_stderr;
};

State& state() {
  static State s;
  return s;
}

void log(LogLevel level, std::string_view message) {
  std::lock_guard lock(state().mutex);
  if (state().sink) state().sink(level, message);
}

}  // namespace

LogSink set_log_sink(LogSink sink) {
  std::lock_guard lock(state().mutex);
  return std::exchange(state().sink, std::move(sink));
}

void log_info(std::string_view message) { log(LogLevel::kInfo, message); }
void log_warning(std::string_view message) { log(LogLevel::kWarning, message); }

}  // namespace lockstep

// A rank for tests of what the ranks tell each other when one is lost:
//   watch_rank MODE VICTIM
// Of three ranks one, the victim, does in the sixth round what MODE says. Prints "N rounds" at its
// end, or "after N ms: what it threw" and returns 1.
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/distributed/comm/write_op_log.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kRounds = 30;
constexpr int kFatal = 5;

milliseconds from_env(const char* name, milliseconds otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? milliseconds(std::atoi(value)) : otherwise;
}

void sleep_ms(int ms) { std::this_thread::sleep_for(milliseconds(ms)); }

/// What the victim does instead of, or before, its part of a round.
void go_wrong(const std::string& mode, ProcessGroup& group) {
  if (mode == "kill") std::raise(SIGKILL);
  if (mode == "kill-later") {  // in the middle of this round or the next ones
    std::thread([] {
      sleep_ms(120);
      std::raise(SIGKILL);
    }).detach();
  }
  if (mode == "stop") {
    std::cout << "stops" << std::endl;
    std::raise(SIGSTOP);
  }
  if (mode == "throw") throw Error("out of disk");
  if (mode == "idle") sleep_ms(20'000);
  if (mode == "barrier") {
    const OpLabel label("before the checkpoint");
    group.barrier()->wait();
  }
}

int rounds(const std::string& mode, ProcessGroup& group, bool victim,
           steady_clock::time_point& since) {
  double sum = 0;
  const int64_t elements = mode == "kill-later" ? 1 << 22 : 10'000;
  Tensor values = Tensor::zeros({elements}, DType::kF32);
  for (int round = 0; round < kRounds; ++round) {
    if (round == kFatal && mode == "kill-outside") {
      if (victim) std::raise(SIGKILL);
      sleep_ms(1500);  // as in a long evaluation
    }
    if (round == kFatal && victim) go_wrong(mode, group);
    if (round == kFatal && mode == "leave" && !victim) return round;
    since = steady_clock::now();
    values.mutable_data<float>()[round] = 0.1f * static_cast<float>(group.rank() + round);
    const OpLabel label("bucket 3: conv1.weight ... fc.bias, 12 parameters");
    group.all_reduce(values)->wait();
    sum = sum * 0.75 + values.data<float>()[round];
    if (mode != "kill-later") sleep_ms(20);
  }
  std::cout << kRounds << " rounds, " << std::hexfloat << sum << std::endl;
  return kRounds;
}

int run(const std::string& mode, int victim) {
  const auto group =
      make_process_group({.start_timeout = from_env("TEST_START_MS", milliseconds(20'000)),
                          .timeout = from_env("TEST_TIMEOUT_MS", milliseconds(60'000)),
                          .stall_warning = from_env("TEST_STALL_MS", milliseconds(10'000))});
  auto since = steady_clock::now();
  const char* log = std::getenv("TEST_LOG_DIR");
  try {
    rounds(mode, *group, group->rank() == victim, since);
    return 0;
  } catch (const std::exception& e) {
    const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - since);
    group->abort(e.what());
    if (log != nullptr) write_op_log(*group, op_log_file(log, group->rank()), e.what());
    std::cout << "after " << took.count() << " ms: " << e.what() << std::endl;
    return 1;
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw lockstep::ArgumentError("watch_rank: wanted MODE VICTIM");
    return lockstep::run(argv[1], std::atoi(argv[2]));
  } catch (const std::exception& e) {
    std::cerr << e.what() << std::endl;
    return 1;
  }
}

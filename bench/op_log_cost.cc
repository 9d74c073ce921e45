// What writing the collectives down costs: nanoseconds of one bucket's label and of one operation's
// four entries in the ring log (queued, begun, started, finished).
#include "lockstep/distributed/comm/op_log.h"
#include "lockstep/distributed/reduce/bucket_label.h"
#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

namespace {

using namespace lockstep;

constexpr int kRounds = 15;

/// Of this thread, so that what else runs on the machine does not count.
int64_t cpu_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// The median over some rounds of the processor's nanoseconds for one call.
template <class Call>
double nanoseconds_of(int64_t calls, Call&& call) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const int64_t begin = cpu_now_ns();
    for (int64_t i = 0; i < calls; ++i) call(round * calls + i);
    rounds.push_back(static_cast<double>(cpu_now_ns() - begin) / static_cast<double>(calls));
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace

int main(int argc, char** argv) {
  int64_t calls = 100'000;
  CLI::App app{"What the ring log of collectives costs", "op_log_cost"};
  app.footer("Example: op_log_cost --calls 1000000");
  app.add_option("--calls", calls, "calls in each of 15 rounds, of which the median is printed")
      ->check(within(1, 1e9, "a number from 1 to 10^9"));
  if (const auto code = parse_command_line(app, normalize_flags(argc, argv))) return *code;

  GradBucket bucket;
  bucket.index = 3;
  for (const char* name : {"layer1.0.conv1.weight", "layer1.0.bn1.weight", "layer1.1.bn2.bias"}) {
    bucket.params.push_back({name, Tensor()});
  }
  size_t letters = 0;
  std::printf("label of a bucket: %.0f ns\n", nanoseconds_of(calls, [&](int64_t) {
                const OpLabel label(bucket_label(bucket));
                letters += OpLabel::current().view().size();
              }));
  comm::OpLog log;
  comm::Op op;
  op.label = bucket_label(bucket);
  std::printf("an operation in the ring log: %.0f ns\n", nanoseconds_of(calls, [&](int64_t i) {
                op.sequence = op.collective = i;
                log.queued(op);
                log.begun(op);
                op.start_ns = i;
                log.started(op);
                log.finished(op, true);
              }));
  return letters > 0 ? 0 : 1;
}

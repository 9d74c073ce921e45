#include "lockstep/train/clock_offset.h"

#include "lockstep/base/timeline.h"
#include "lockstep/distributed/comm/op_label.h"

#include <limits>

namespace lockstep {
namespace {

// The first opens the connection.
constexpr int kRounds = 6;

void answer(ProcessGroup& group, int rank) {
  Tensor message = Tensor::zeros({1}, DType::kI64);
  for (int round = 0; round < kRounds; ++round) {
    group.recv(message, rank)->wait();
    *message.mutable_data<int64_t>() = Timeline::now_ns();
    group.send(message, rank)->wait();
  }
}

ClockOffset ask(ProcessGroup& group) {
  Tensor message = Tensor::zeros({1}, DType::kI64);
  ClockOffset best{.error_ns = std::numeric_limits<int64_t>::max()};
  for (int round = 0; round < kRounds; ++round) {
    const int64_t asked = Timeline::now_ns();
    group.send(message, 0)->wait();
    group.recv(message, 0)->wait();
    const int64_t answered = Timeline::now_ns();
    const int64_t error = (answered - asked + 1) / 2;
    if (error >= best.error_ns) continue;
    best = {.offset_ns = asked + (answered - asked) / 2 - message.data<int64_t>()[0],
            .error_ns = error,
            .at_ns = answered};
  }
  return best;
}

}  // namespace

ClockOffset measure_clock_offset(ProcessGroup& group) {
  const OpLabel label("clocks");
  if (group.rank() != 0) return ask(group);
  for (int rank = 1; rank < group.size(); ++rank) answer(group, rank);
  return {.at_ns = Timeline::now_ns()};
}

}  // namespace lockstep

// The ring log of operations, and the labels in it.
#include "lockstep/distributed/comm/op_log.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>

namespace lockstep::comm {
namespace {

Op op_of(int64_t sequence, int64_t collective, const char* label = "") {
  Op op;
  op.signature = {OpKind::kAllReduce, DType::kF32, ReduceOp::kSum, -1, 1000};
  op.sequence = sequence;
  op.collective = collective;
  op.queued_ns = 10 + sequence;
  op.label = OpText(label);
  return op;
}

TEST_CASE("op text: what does not fit is cut") {
  OpText text("bucket ");
  text.append(int64_t{-3}).append(": a");
  CHECK(text.view() == "bucket -3: a");
  text.append(std::string(300, 'x'));
  CHECK(text.view() == "bucket -3: a" + std::string(OpText::kMost - 12, 'x'));
  text.append("more");
  CHECK(text.view().size() == OpText::kMost);
}

TEST_CASE("op label: the innermost of this thread counts") {
  CHECK(OpLabel::current().empty());
  const OpLabel outer("outer");
  {
    const OpLabel inner("inner");
    CHECK(OpLabel::current().view() == "inner");
    std::thread([] { CHECK(OpLabel::current().empty()); }).join();
  }
  CHECK(OpLabel::current().view() == "outer");
}

TEST_CASE("op log: the life of an operation") {
  OpLog log;
  Op op = op_of(0, 0, "bucket 1");
  log.queued(op);
  CHECK(!log.progress().running);
  CHECK(log.records().size() == 1);
  CHECK(log.records()[0].state == OpState::kQueued);
  log.begun(op);
  REQUIRE(log.progress().running);
  CHECK(describe(*log.progress().running) == "all_reduce(sum, f32, 1000 elements) [bucket 1]");
  CHECK(log.records()[0].state == OpState::kWaiting);
  op.start_ns = 7;
  log.started(op);
  CHECK(log.records()[0].state == OpState::kMoving);
  CHECK(log.progress().collectives == 0);
  log.finished(op, true);
  const OpRecord record = log.records()[0];
  CHECK(record.state == OpState::kDone);
  CHECK(record.queued_ns == 10);
  CHECK(record.begun_ns > 0);
  CHECK(record.started_ns == 7);
  CHECK(record.finished_ns >= record.begun_ns);
  CHECK(!log.progress().running);
  CHECK(log.progress().collectives == 1);
  CHECK(log.progress().last->sequence == 0);
}

TEST_CASE("op log: what fails, in the queue and on its way; letters are no collectives") {
  OpLog log;
  Op letter = op_of(0, 0);
  letter.signature.kind = OpKind::kSend;
  log.queued(letter);
  log.begun(letter);
  log.finished(letter, true);
  CHECK(log.progress().collectives == 0);
  const Op a = op_of(1, 0), b = op_of(2, 1);
  log.queued(a);
  log.queued(b);
  log.begun(a);
  log.group_failed("rank 2 is dead");
  log.group_failed("later");
  log.finished(b, false);  // the queue is emptied first
  CHECK(log.progress().running);
  log.finished(a, false);
  CHECK(log.progress().collectives == 0);
  CHECK(log.failure() == "rank 2 is dead");
  const auto records = log.records();
  REQUIRE(records.size() == 3);
  CHECK(records[1].state == OpState::kFailed);
  CHECK(records[1].begun_ns > 0);
  CHECK(records[2].state == OpState::kFailed);
  CHECK(records[2].begun_ns == 0);
}

TEST_CASE("op log: a ring keeps the last ones, and a long queue loses none that runs") {
  OpLog log(4);
  for (int64_t i = 0; i < 10; ++i) log.queued(op_of(i, i));
  for (int64_t i = 0; i < 10; ++i) {
    const Op op = op_of(i, i);
    log.begun(op);
    CHECK(log.progress().running->sequence == i);
    log.finished(op, true);
    CHECK(log.progress().collectives == i + 1);
  }
  const auto records = log.records();
  REQUIRE(records.size() == 4);
  for (size_t k = 0; k < 4; ++k) {
    CHECK(records[k].sequence == static_cast<int64_t>(6 + k));
    CHECK(records[k].state == OpState::kDone);
  }
}

}  // namespace
}  // namespace lockstep::comm

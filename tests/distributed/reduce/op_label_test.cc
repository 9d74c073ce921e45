// What the log of operations says that each collective of a training was about.
#include "lockstep/distributed/comm/canonical_group.h"
#include "lockstep/distributed/comm/op_log.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/comm/write_op_log.h"
#include "lockstep/distributed/reduce/bucket_label.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/reduce/hooks/all_reduce_hook.h"
#include "lockstep/report/ring_log.h"
#include "lockstep/tests/distributed/reduce/small_net.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lockstep {
namespace {

TEST_CASE("the label of a bucket: its number, its ends and how many parameters it has") {
  GradBucket bucket;
  bucket.index = 3;
  CHECK(bucket_label(bucket).view() == "bucket 3: ");
  for (const char* name : {"a.weight", "b.weight", "c.bias"}) bucket.params.push_back({name, {}});
  CHECK(bucket_label(bucket).view() == "bucket 3: a.weight ... c.bias, 3 parameters");
  bucket.params.pop_back();
  CHECK(bucket_label(bucket).view() == "bucket 3: a.weight, b.weight, 2 parameters");
  bucket.params.pop_back();
  CHECK(bucket_label(bucket).view() == "bucket 3: a.weight");
}

/// The labels of one step's collectives after another's, on rank 1 of three.
std::vector<std::string> labels_of(bool hook, bool canonical) {
  std::vector<std::string> labels;
  spawn(3, [&](ProcessGroup& outer) {
    std::unique_ptr<ProcessGroup> own = outer.split(0, outer.rank());
    if (canonical) own = make_canonical_group(std::move(own));
    DdpOptions options{.bucket_cap_mb = 0, .first_bucket_cap_mb = 0, .replan = false};
    if (hook) options.reduction = run_comm_hook(std::make_shared<AllReduceHook>(), *own);
    testing::train_small_net_on(*own, {.ranks = 3, .steps = 1, .ddp = options});
    if (own->rank() != 1) return;
    comm::LogCollection logs;
    dynamic_cast<comm::OpLogSource&>(*own).collect_logs(logs);
    check(logs.groups.size() == 1, "wanted one log, got ", logs.groups.size());
    for (const comm::OpRecord& op : logs.groups[0].log->records()) {
      check(op.state == comm::OpState::kDone, describe(op), " is ", name_of(op.state));
      labels.emplace_back(op.label.view());
    }
  });
  return labels;
}

TEST_CASE("a training's collectives say what they are about, whoever issues them") {
  const std::vector<std::string> plain = labels_of(false, false);
  const auto count = [](const std::vector<std::string>& labels, const std::string& label) {
    return std::count(labels.begin(), labels.end(), label);
  };
  CHECK(count(plain, "bucket 0: fc_bias") == 1);
  CHECK(count(plain, "bucket 5: conv1") == 1);
  CHECK(count(plain, "used parameters") == 1);
  CHECK(count(plain, "bucket plan") == 1);
  CHECK(count(plain, "names and shapes of the parameters") > 0);
  // A hook's thread has its bucket's label; what is done by calls of another group keeps it.
  CHECK(labels_of(true, false) == plain);
  const std::vector<std::string> canonical = labels_of(false, true);
  CHECK(count(canonical, "bucket 5: conv1") == 2);  // an exchange and a gathering
}

TEST_CASE("a log that was written is read back") {
  const testing::TempDir dir;
  spawn(3, [&](ProcessGroup& group) {
    const OpLabel label("first\ttry");
    group.all_reduce(Tensor::zeros({10}, DType::kF32))->wait();
    group.barrier()->wait();
    if (group.rank() != 2) return;
    group.abort("out of \"disk\"");
    CHECK(op_log_file("runs", 2) == "runs/ring.rank2.json");
    CHECK(write_op_log(group, op_log_file(dir.path().string(), 2), "why"));
  });
  const report::RingLogs run = report::read_ring_logs(dir.path().string());
  CHECK(run.world_size == 3);
  CHECK(run.missing == std::vector<int>{0, 1});
  const report::RingLog& log = run.logs.at(0);
  CHECK(log.rank == 2);
  CHECK(log.error == "why");
  REQUIRE(log.groups.size() == 1);
  const report::RingGroup& group = log.groups[0];
  CHECK(group.name == "threads");
  CHECK(group.ranks == std::vector<int>{0, 1, 2});
  CHECK(group.failure == "out of \"disk\"");
  CHECK(group.collectives == 2);
  REQUIRE(group.ops.size() == 2);
  CHECK(group.ops[0].call == "all_reduce(sum, f32, 10 elements)");
  CHECK(group.ops[0].label == "first?try");
  CHECK(group.ops[0].state == "done");
  CHECK(group.ops[1].call == "barrier()");
  CHECK(group.ops[1].collective == 1);
  CHECK(*group.ops[0].queued_us <= *group.ops[0].begun_us);
  CHECK(*group.ops[0].begun_us <= *group.ops[0].started_us);
  CHECK(*group.ops[0].started_us <= *group.ops[0].finished_us);
  CHECK(*group.ops[1].finished_us <= log.written_us);
}

}  // namespace
}  // namespace lockstep

#include "lockstep/distributed/faults/fault.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/faults/faulty_reduction.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

TEST_CASE("parse_fault and describe") {
  const Fault fault = parse_fault("slow:rank=2,step=7,ms=40");
  CHECK(fault.kind == FaultKind::kSlow);
  CHECK(fault.rank == 2);
  CHECK(fault.step == 7);
  CHECK(fault.delay == std::chrono::milliseconds(40));
  CHECK(describe(fault) == "a rank's backward takes longer (rank 2, step 7, 40 ms)");
  CHECK(fault.in_step(6));
  CHECK(!fault.in_step(7));
  CHECK(parse_fault("slow").in_step(1234));
  CHECK(parse_fault("corrupt").in_step(4));
  CHECK(describe(parse_fault("no-scale")) ==
        "gradients are the sum over the ranks, not the mean (every rank)");
}

TEST_CASE("what is no fault is refused, with what there is") {
  CHECK_THROWS_WITH_AS(
      parse_fault("gremlin"),
      "fault: wanted one of arrival-order, corrupt, die, different-order, forget-wait, "
      "half-reduced-tied, nan, no-scale, no-sync, same-data, scale-twice, seed, skip, slow; got "
      "'gremlin'",
      ArgumentError);
  for (const char* text :
       {"", "nan:", "nan:rank", "nan:rank=", "nan:rank=-1", "nan:rank=x", "nan:rank=1x",
        "nan:step=0", "nan:step=99999999999999999999", "nan:ms=5", "seed:step=3", "no-scale:rank=1",
        "slow:ms=-1", "slow:rank=1,", "slow:rank=1,,ms=2", "slow:colour=red"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_fault(text), ArgumentError);
  }
}

TEST_CASE("a fault wants its rank, and company") {
  CHECK_THROWS_WITH_AS(check_fault(parse_fault("nan:rank=3"), 3),
                       "fault: nan is of rank 3, but the ranks are 0 to 2", ArgumentError);
  CHECK_THROWS_WITH_AS(check_fault(parse_fault("no-scale"), 1),
                       "fault: no-scale wants at least 2 ranks, got 1", ArgumentError);
}

TEST_CASE("without a fault of the reduction, nothing lies in between") {
  const auto group = make_single_group();
  CHECK(with_faults({}, *group, nullptr) == nullptr);
}

}  // namespace
}  // namespace lockstep

// A reduction that fails, while later ones are on their way.
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/reduce/reducer.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

namespace lockstep {
namespace {

using testing::Toy;

struct FakeWork final : Work {
  explicit FakeWork(bool fails) : fails(fails) {}
  void wait() override {
    waited = true;
    if (fails) throw CommError("the line is cut");
  }
  void wait_host(std::chrono::milliseconds) override { wait(); }
  bool done() const override { return waited; }
  Times times() const override { return {}; }

  const bool fails;
  bool waited = false;
};

TEST_CASE("when a reduction fails, backward waits for those behind it before it throws") {
  for (DdpMode mode : testing::kAveraging) {
    CAPTURE(name_of(mode));
    const auto group = make_single_group();
    Toy toy(0, /*mixed=*/false);
    std::vector<std::shared_ptr<FakeWork>> works;
    bool broken = true;
    const auto reduction = [&](const GradBucket& bucket) {
      works.push_back(std::make_shared<FakeWork>(broken && bucket.index % 2 == 1));
      return works.back();
    };
    Reducer reducer(toy.params, plan_buckets(toy.specs, {0, 0}), *group,
                    {.mode = mode, .reduction = reduction});
    CHECK_THROWS_WITH_AS(toy.loss(0).backward(), doctest::Contains("line is cut"), CommError);
    REQUIRE(works.size() == Toy::kParams);
    for (const auto& work : works) CHECK(work->waited);

    works.clear();
    broken = false;
    toy.zero_grad();
    toy.loss(1).backward();
    toy.expect_all(1, {1});
    for (const auto& work : works) CHECK(work->waited);
  }
}

}  // namespace
}  // namespace lockstep

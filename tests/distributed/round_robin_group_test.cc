#include "lockstep/distributed/comm/round_robin_group.h"
#include "lockstep/distributed/comm/emulated_link.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/wrap_process_group.h"
#include "lockstep/tests/distributed/rank_groups.h"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::GroupPtr;
using testing::kHostBackends;
using testing::run_all_well;
using testing::run_ranks;

GroupPtr round_robin(GroupPtr group, int count, const std::optional<LinkSpec>& link = {}) {
  return wrap_process_group(std::move(group), {.link = link, .round_robin = count});
}

/// Collectives one after the other, and many at once in memory of their own.
void check_overlapping(ProcessGroup& group) {
  std::vector<Tensor> tensors;
  std::vector<WorkPtr> works;
  for (int64_t k = 0; k < 20; ++k) {
    const auto value = static_cast<float>(group.rank() + k);
    tensors.push_back(
        Tensor::from<float>(std::vector<float>(static_cast<size_t>(100 + k), value), {100 + k}));
    works.push_back(group.all_reduce(tensors.back(), ReduceOp::kSum));
  }
  for (size_t k = works.size(); k-- > 0;) {
    works[k]->wait();
    const int n = group.size();
    const auto wanted = static_cast<float>(n * (n - 1) / 2 + n * static_cast<int>(k));
    for (float v : tensors[k].to_vector<float>()) {
      if (v != wanted) throw Error(str("operation ", k, ": wanted ", wanted, ", got ", v));
    }
    if (works[k]->times().start_ns <= 0) throw Error("times are not set");
  }
}

/// Letters round the ring, several to each, between collectives.
void check_ring(ProcessGroup& group) {
  const int n = group.size();
  const int next = (group.rank() + 1) % n;
  const int previous = (group.rank() + n - 1) % n;
  for (int i = 0; i < 5; ++i) {
    const Tensor mine = Tensor::from<int32_t>({group.rank() * 10 + i}, {1});
    const Tensor got = Tensor::zeros({1}, DType::kI32);
    if (group.rank() == 0) group.send(mine, next);
    group.recv(got, previous)->wait();
    if (group.rank() != 0) group.send(mine, next)->wait();
    if (got.item() != previous * 10 + i) throw Error(str("letter ", i, ": got ", got.item()));
    if (i % 2 == 0) check_overlapping(group);
  }
}

TEST_CASE("round robin: results over one, threads and Gloo") {
  for (const std::string& backend : kHostBackends) {
    for (int n : {3, 4}) {
      run_all_well(backend, n, [&](GroupPtr group) {
        group = round_robin(std::move(group), 3);
        if (group->backend() != "round robin over 3 x " + backend) throw Error(group->backend());
        for (int i = 0; i < 3; ++i) {
          check_overlapping(*group);
          group->broadcast(Tensor::zeros({4}, DType::kU8), i)->wait();
        }
        const auto half = group->split(group->rank() % 2, -group->rank());
        check_overlapping(*half);
        if ((group->split(group->rank() == 0 ? -1 : 1, 0) == nullptr) != (group->rank() == 0)) {
          throw Error("split: rank 0 must get no group");
        }
        check_ring(*group);
      });
    }
  }
}

TEST_CASE("round robin: transfers overlap, a barrier and a letter come after all") {
  // The small one takes 20 ms, the large ones 190 each.
  const LinkSpec link{.gbit_per_s = 0.01, .latency = milliseconds(5)};
  run_all_well("threads", 3, [&](GroupPtr group) {
    group = round_robin(std::move(group), 3, link);
    std::vector<WorkPtr> works;
    // The first group is soon done, so that what goes through it alone does not wait for the rest.
    const auto issue = [&] {
      works.clear();
      for (const int64_t n : {1, 40'000, 40'000}) {
        works.push_back(group->all_reduce(Tensor::zeros({n}, DType::kF32), ReduceOp::kSum));
      }
    };
    const auto all_done = [&](const char* what) {
      for (const WorkPtr& work : works) {
        if (!work->done()) throw Error(str(what, " came before an operation had ended"));
      }
    };
    const auto start = steady_clock::now();
    issue();
    for (const WorkPtr& work : works) work->wait();
    if (steady_clock::now() - start > milliseconds(330)) throw Error("one after the other");

    issue();
    group->barrier()->wait();
    all_done("a barrier");
    issue();
    const Tensor t = Tensor::zeros({8}, DType::kF32);
    if (group->rank() == 0) group->send(t, 1)->wait();
    if (group->rank() == 1) group->recv(t, 0)->wait();
    if (group->rank() < 2) all_done("a letter");
    // A letter takes no turn: ranks 0 and 1 must still agree with rank 2.
    group->all_reduce(Tensor::zeros({8}, DType::kF32), ReduceOp::kSum)->wait();
    // A wrong argument neither.
    if (group->rank() == 1)
      CHECK_THROWS_AS(group->all_reduce(Tensor(), ReduceOp::kSum), ArgumentError);
    group->all_reduce(Tensor::zeros({8}, DType::kF32), ReduceOp::kSum)->wait();
    const WorkPtr late = group->barrier();
    CHECK_THROWS_AS(late->wait_host(milliseconds(1)), CommError);  // late is no error of the group
    late->wait();
  });
}

TEST_CASE("round robin: the error of one group is the error of all") {
  for (const std::string& backend : kHostBackends) {
    CAPTURE(backend);
    auto errors = run_ranks(backend, 3, [](GroupPtr group) {
      group = round_robin(std::move(group), 2);
      group->barrier()->wait();
      const int64_t n = group->rank() == 1 ? 8 : 9;
      const WorkPtr wrong = group->all_reduce(Tensor::zeros({n}, DType::kF32), ReduceOp::kSum);
      std::string message;
      try {
        wrong->wait();
      } catch (const CommError& e) {
        message = e.what();
      }
      // The other group has not failed by itself.
      CHECK_THROWS_WITH_AS(group->barrier(), doctest::Contains("has failed already"), CommError);
      CHECK_THROWS_AS(group->all_reduce(Tensor::zeros({8}, DType::kF32), ReduceOp::kSum),
                      CommError);
      throw Error(message);
    });
    for (const std::string& error : errors) CHECK(error.find("rank 1 calls") != std::string::npos);

    // A lost peer; an abort while others wait; destruction in flight.
    errors = run_ranks(backend, 3, [](GroupPtr group) {
      group = round_robin(std::move(group), 2);
      group->barrier()->wait();
      for (int i = 0; group->rank() != 2 && i < 4; ++i) {
        group->all_reduce(Tensor::zeros({8}, DType::kF32), ReduceOp::kSum)->wait();
      }
    });
    CHECK(errors[0] != "");
    CHECK(errors[1] != "");
    errors = run_ranks(backend, 3, [](GroupPtr group) {
      group = round_robin(std::move(group), 2);
      group->barrier()->wait();
      const WorkPtr pending = group->rank() == 0 ? nullptr : group->barrier();
      if (group->rank() == 2) group->abort("enough");
      if (group->rank() == 0) std::this_thread::sleep_for(milliseconds(200));
      (pending ? pending : group->barrier())->wait();
    });
    for (const std::string& error : errors) CHECK(error != "");
    run_ranks(backend, 3, [](GroupPtr group) {
      group = round_robin(std::move(group), 2);
      if (group->rank() == 0) return;
      const WorkPtr first = group->barrier();
      group.reset();
      CHECK_THROWS_AS(first->wait(), CommError);  // a Work may outlive its group
    });
  }
}

TEST_CASE("round robin: groups that do not belong together are refused") {
  CHECK_THROWS_AS(make_round_robin_group({}), ArgumentError);
  std::vector<GroupPtr> groups(2);
  CHECK_THROWS_AS(make_round_robin_group(std::move(groups)), ArgumentError);
  CHECK_THROWS_AS(wrap_process_group(make_single_group(), {.round_robin = 0}), ArgumentError);
  CHECK_THROWS_AS(wrap_process_group(nullptr, {}), ArgumentError);
  run_all_well("threads", 2, [](GroupPtr group) {
    auto reversed = group->split(0, -group->rank());
    std::vector<GroupPtr> other;
    other.push_back(std::move(group));
    other.push_back(std::move(reversed));
    CHECK_THROWS_AS(make_round_robin_group(std::move(other)), ArgumentError);
  });
}

TEST_CASE("wrap_process_group: all at once, and nothing") {
  const GroupPtr same = wrap_process_group(make_single_group(), {});
  CHECK(std::string(same->backend()) == "single");
  for (const std::string& backend : kHostBackends) {
    run_all_well(backend, 3, [&](GroupPtr group) {
      group = wrap_process_group(
          std::move(group),
          {.canonical = true, .link = LinkSpec{.gbit_per_s = 10}, .round_robin = 2});
      const std::string wanted =
          "round robin over 2 x canonical over emulated 10 Gbit/s, 0 us over " + backend;
      if (group->backend() != wanted) throw Error(group->backend());
      check_overlapping(*group);
      // (1e8 - 1e8) + 1 in rank order; Gloo's own order gives 0 for some places.
      const float values[] = {1e8f, -1e8f, 1};
      const Tensor t = Tensor::from<float>(std::vector<float>(100, values[group->rank()]), {100});
      group->all_reduce(t, ReduceOp::kSum)->wait();
      for (float v : t.to_vector<float>()) {
        if (v != 1) throw Error(str("wanted 1, got ", v));
      }
    });
  }
}

}  // namespace
}  // namespace lockstep

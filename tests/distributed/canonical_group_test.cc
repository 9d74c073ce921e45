#include "lockstep/distributed/comm/canonical_group.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tests/distributed/collectives.h"
#include "lockstep/tests/distributed/rank_groups.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::GroupPtr;
using testing::kHostBackends;
using testing::run_all_well;
using testing::run_ranks;

/// Of sizes that differ by orders of magnitude, so that the order of addition shows.
template <class T>
std::vector<T> values_of(int rank, int64_t n) {
  std::mt19937 random(static_cast<unsigned>(rank + 1));
  std::normal_distribution<float> normal;
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i) {
    const float v = normal(random) * (random() % 3 == 0 ? 100.0f : 0.1f);
    values.push_back(static_cast<T>(static_cast<compute_t<T>>(v)));
  }
  return values;
}

/// The sum in rank order, written down by hand: in f32 for the halves, rounded once.
template <class T>
std::vector<T> sum_of(int ranks, int64_t n) {
  std::vector<compute_t<T>> sums(static_cast<size_t>(n));
  for (int r = 0; r < ranks; ++r) {
    const std::vector<T> values = values_of<T>(r, n);
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto v = static_cast<compute_t<T>>(values[i]);
      sums[i] = r == 0 ? v : sums[i] + v;
    }
  }
  std::vector<T> rounded;
  for (const auto s : sums) rounded.push_back(static_cast<T>(s));
  return rounded;
}

template <class T>
void expect_bits(const char* what, const Tensor& got, const T* wanted) {
  if (std::memcmp(got.raw(), wanted, got.nbytes()) != 0) {
    throw Error(str(what, " of ", got.numel(), " ", name_of(got.dtype()), ": other bits"));
  }
}

template <class T>
void check_bits(ProcessGroup& group, int64_t n) {
  const std::vector<T> mine = values_of<T>(group.rank(), n);
  const std::vector<T> wanted = sum_of<T>(group.size(), n);
  const Tensor whole = Tensor::from<T>(mine, {n});
  group.all_reduce(whole)->wait();
  expect_bits("all_reduce", whole, wanted.data());

  // The same elements at other places of other tensors.
  const Tensor cut = Tensor::from<T>(mine, {n});
  const int64_t at[] = {0, n / 7, n / 7 + n / 9, n / 2, n};
  std::vector<WorkPtr> works;
  for (int i = 0; i < 4; ++i) works.push_back(group.all_reduce(cut.slice(at[i], at[i + 1])));
  for (const WorkPtr& work : works) work->wait();
  expect_bits("all_reduce of slices", cut, wanted.data());

  const int64_t part = n / group.size();
  const Tensor in = Tensor::from<T>(mine, {n}).slice(0, part * group.size());
  const Tensor out = Tensor::empty({part}, dtype_of<T>);
  group.reduce_scatter(out, in)->wait();
  expect_bits("reduce_scatter", out, wanted.data() + part * group.rank());
}

TEST_CASE("canonical: collectives over one, threads and Gloo") {
  const GroupPtr single = make_canonical_group(make_single_group());
  CHECK(std::string(single->backend()) == "canonical over single");
  testing::check_collectives(*single);
  testing::check_ring_and_split(*single);
  for (const std::string& backend : kHostBackends) {
    run_all_well(backend, 3, [](GroupPtr group) {
      group = make_canonical_group(std::move(group));
      testing::check_collectives(*group);
      testing::check_ring_and_split(*group);
    });
  }
}

TEST_CASE("canonical: the bits of the sum in rank order, on every backend and at every place") {
  for (const std::string& backend : kHostBackends) {
    for (int ranks : {3, 4}) {
      run_all_well(backend, ranks, [](GroupPtr group) {
        group = make_canonical_group(std::move(group));
        for (int64_t n : {1, 5, 1000, 10'007}) {
          check_bits<float>(*group, n);
          check_bits<double>(*group, n);
          check_bits<bf16>(*group, n);
          check_bits<f16>(*group, n);
        }
      });
    }
  }
}

TEST_CASE("canonical: a warm operation allocates no tensors") {
  run_all_well("threads", 3, [](GroupPtr group) {
    group = make_canonical_group(std::move(group));
    const Tensor t = Tensor::zeros({10'001}, DType::kF32);
    group->all_reduce(t)->wait();
    group->barrier()->wait();
    const auto requests = [] {
      return cpu_allocator().stats().hits + cpu_allocator().stats().misses;
    };
    const uint64_t before = requests();
    for (int i = 0; i < 5; ++i) group->all_reduce(t)->wait();
    group->barrier()->wait();
    if (requests() != before) throw Error("it has allocated");
  });
}

TEST_CASE("canonical: times are from the first transfer to the last") {
  run_all_well("threads", 3, [](GroupPtr group) {
    group = make_canonical_group(std::move(group));
    const int64_t issued = std::chrono::steady_clock::now().time_since_epoch().count();
    const WorkPtr work = group->all_reduce(Tensor::zeros({1001}, DType::kF32));
    work->wait();
    const int64_t ended = std::chrono::steady_clock::now().time_since_epoch().count();
    const Work::Times times = work->times();
    if (times.start_ns < issued || times.finish_ns < times.start_ns || times.finish_ns > ended) {
      throw Error("times lie outside of the operation");
    }
  });
}

TEST_CASE("canonical: a difference throws on every rank and names both calls") {
  for (const std::string& backend : kHostBackends) {
    CAPTURE(backend);
    // 1000 and 1001 take the same padding; so do sum and max.
    for (const bool by_size : {true, false}) {
      const auto errors = run_ranks(backend, 3, [&](GroupPtr group) {
        group = make_canonical_group(std::move(group));
        const bool other = group->rank() == 1;
        group->barrier()->wait();
        group
            ->all_reduce(Tensor::zeros({other && by_size ? 1001 : 1000}, DType::kF32),
                         other && !by_size ? ReduceOp::kMax : ReduceOp::kSum)
            ->wait();
      });
      for (const std::string& error : errors) {
        CAPTURE(error);
        CHECK(error.find("rank 0 calls all_reduce(sum, f32, 1000 elements), rank 1 calls "
                         "all_reduce(") != std::string::npos);
      }
    }
    const auto errors = run_ranks(backend, 3, [](GroupPtr group) {
      group = make_canonical_group(std::move(group));
      group->all_reduce(Tensor::zeros({group->rank() == 2 ? 9000 : 10}, DType::kF32))->wait();
    });
    for (size_t r = 0; r < 3; ++r) {
      CHECK(errors[r].find(str("all_reduce(sum, f32, ", r == 2 ? 9000 : 10, " elements)")) == 0);
    }
  }
}

TEST_CASE("canonical: a rank that leaves, one that aborts, a group destroyed in flight") {
  for (const std::string& backend : kHostBackends) {
    CAPTURE(backend);
    auto errors = run_ranks(backend, 3, [](GroupPtr group) {
      group = make_canonical_group(std::move(group));
      group->barrier()->wait();
      if (group->rank() != 2) group->all_reduce(Tensor::zeros({1000}, DType::kF32))->wait();
    });
    CHECK(errors[0] != "");
    CHECK(errors[1] != "");
    CHECK(errors[2] == "");
    errors = run_ranks(backend, 3, [](GroupPtr group) {
      group = make_canonical_group(std::move(group));
      group->barrier()->wait();
      WorkPtr pending;
      if (group->rank() != 0) pending = group->all_reduce(Tensor::zeros({1000}, DType::kF32));
      if (group->rank() == 2) {
        std::this_thread::sleep_for(milliseconds(20));
        group->abort("enough");
      }
      if (group->rank() == 0) std::this_thread::sleep_for(milliseconds(200));
      (pending ? pending : group->barrier())->wait();
    });
    for (const std::string& error : errors) CHECK(error != "");
    run_ranks(backend, 3, [](GroupPtr group) {
      group = make_canonical_group(std::move(group));
      if (group->rank() == 0) return;
      for (int i = 0; i < 4; ++i) group->all_reduce(Tensor::zeros({100'000}, DType::kF32));
      std::this_thread::sleep_for(milliseconds(10));
    });
  }
  CHECK_THROWS_AS(make_canonical_group(nullptr), ArgumentError);
}

}  // namespace
}  // namespace lockstep

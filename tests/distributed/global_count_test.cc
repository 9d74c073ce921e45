#include "lockstep/distributed/global_count.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/reduce/small_net.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <limits>
#include <numeric>
#include <vector>

namespace lockstep {
namespace {

using testing::largest_difference;
using testing::small_batch;
using testing::SmallBatch;
using testing::SmallNet;

/// f64: the same sums in another order.
constexpr double kTolerance = 1e-13;

std::vector<Tensor> grads_of(const SmallNet& net) {
  std::vector<Tensor> grads;
  for (const Variable& p : net.parameters()) grads.push_back(ops::clone(*p.grad()));
  return grads;
}

Variable loss_of(const SmallNet& net, const SmallBatch& batch, Reduction reduction) {
  return cross_entropy(net.forward(Variable(batch.inputs)), batch.targets,
                       {.reduction = reduction});
}

/// What one process computes that has all `rows` rows.
struct Pooled {
  std::vector<Tensor> grads;
  double loss;
  explicit Pooled(int rows) {
    const SmallNet net(DType::kF64);
    const Variable mean =
        loss_of(net, small_batch(0, rows, 0, rows, DType::kF64), Reduction::kMean);
    mean.backward();
    grads = grads_of(net);
    loss = mean.data().item();
  }
};

/// Cuts a global batch into each rank's micro-batches of these sizes; calls fn(group, net, ddp, the
/// micro-batches, this rank's number of rows) on each rank. The gradients of each rank.
using Micros = std::vector<std::vector<int>>;
template <class Fn>
std::vector<std::vector<Tensor>> on_ranks(const Micros& sizes, Fn fn) {
  const auto rows_of = [&](size_t r) {
    return std::accumulate(sizes[r].begin(), sizes[r].end(), 0);
  };
  int all = 0;
  for (size_t r = 0; r < sizes.size(); ++r) all += rows_of(r);
  std::vector<std::vector<Tensor>> grads(sizes.size());
  spawn(static_cast<int>(sizes.size()), [&](ProcessGroup& group) {
    omp_set_num_threads(1);
    const auto me = static_cast<size_t>(group.rank());
    SmallNet net(DType::kF64);
    DataParallel ddp(net, group);
    int begin = 0;
    for (size_t r = 0; r < me; ++r) begin += rows_of(r);
    std::vector<SmallBatch> batches;
    for (const int size : sizes[me]) {
      batches.push_back(small_batch(0, all, begin, begin + size, DType::kF64));
      begin += size;
    }
    fn(net, ddp, batches, rows_of(me));
    grads[me] = grads_of(net);
  });
  return grads;
}

TEST_CASE("unequal numbers of samples: the gradients of one process with all of them") {
  for (const Micros& sizes : {Micros{{5}, {1}}, {{1}, {5}}, {{7}, {2}, {0}}, {{0}, {4}, {2}}}) {
    int rows = 0;
    for (const auto& rank : sizes) rows += rank[0];
    const Pooled expected(rows);
    const auto grads = on_ranks(sizes, [&](SmallNet& net, DataParallel& ddp,
                                           const std::vector<SmallBatch>& batches, int mine) {
      const Variable loss =
          mean_over_ranks(loss_of(net, batches[0], Reduction::kSum), mine, ddp.group());
      loss.backward();
      const Tensor value = ops::clone(loss.data());
      ddp.group().all_reduce(value)->wait();
      CHECK(value.item() / ddp.group().size() == doctest::Approx(expected.loss).epsilon(1e-13));
    });
    CAPTURE(rows);
    for (const auto& rank : grads) CHECK(largest_difference(rank, expected.grads) <= kTolerance);
  }
}

TEST_CASE("sums against means: each rank's own mean weighs a small batch too much") {
  const auto own_mean = [](SmallNet& net, DataParallel&, const std::vector<SmallBatch>& batches,
                           int) { loss_of(net, batches[0], Reduction::kMean).backward(); };
  CHECK(largest_difference(on_ranks({{5}, {1}}, own_mean)[0], Pooled(6).grads) > 0.01);
  // With equal batches there is no difference.
  CHECK(largest_difference(on_ranks({{3}, {3}}, own_mean)[0], Pooled(6).grads) <= kTolerance);
}

TEST_CASE("tokens that are ignored are not counted") {
  const int64_t ignored = CrossEntropyOptions{}.ignore_index;
  const auto keep = [&](SmallBatch batch, int64_t first, int64_t last) {
    batch.targets = ops::clone(batch.targets);
    int64_t* targets = batch.targets.mutable_data<int64_t>();
    for (int64_t i = 0; i < batch.targets.numel(); ++i)
      if (i < first || i >= last) targets[i] = ignored;
    return batch;
  };
  // Of 6 rows on each rank 5 and 1 count: rows 0 to 4 and 11.
  SmallBatch all = small_batch(0, 12, 0, 12, DType::kF64);
  all.targets = ops::clone(all.targets);
  for (int64_t i = 5; i < 11; ++i) all.targets.mutable_data<int64_t>()[i] = ignored;
  const SmallNet one(DType::kF64);
  loss_of(one, all, Reduction::kMean).backward();
  const auto grads = on_ranks({{6}, {6}}, [&](SmallNet& net, DataParallel& ddp,
                                              const std::vector<SmallBatch>& batches, int) {
    const bool first = ddp.group().rank() == 0;
    const SmallBatch batch = keep(batches[0], first ? 0 : 5, first ? 5 : 6);
    mean_over_ranks(loss_of(net, batch, Reduction::kSum), first ? 5 : 1, ddp.group()).backward();
  });
  for (const auto& rank : grads) CHECK(largest_difference(rank, grads_of(one)) <= kTolerance);
}

TEST_CASE("accumulation over unequal micro-batches, of which ranks may have none") {
  for (const Micros& sizes : {Micros{{2, 1, 4}, {3, 1}}, {{4, 2}, {1, 0}, {0, 2}}}) {
    int rows = 0;
    for (const auto& rank : sizes) rows += std::accumulate(rank.begin(), rank.end(), 0);
    const auto grads = on_ranks(sizes, [](SmallNet& net, DataParallel& ddp,
                                          const std::vector<SmallBatch>& batches, int mine) {
      const double factor = mean_scale(ddp.group(), mine);
      for (size_t m = 0; m < batches.size(); ++m) {
        const Variable loss = scale(loss_of(net, batches[m], Reduction::kSum), factor);
        if (m + 1 < batches.size()) {
          const NoSync no_sync = ddp.no_sync();
          loss.backward();
        } else {
          loss.backward();
        }
      }
    });
    for (const auto& rank : grads)
      CHECK(largest_difference(rank, Pooled(rows).grads) <= kTolerance);
  }
}

TEST_CASE("global_count is exact, and bad counts are every rank's error") {
  const auto single = make_single_group();
  CHECK(global_count(*single, 3) == 3);
  CHECK(mean_scale(*single, 4) == 0.25);
  spawn(3, [](ProcessGroup& group) {
    const double large = 3e15;  // three of them are just below 2^53
    CHECK(global_count(group, large + group.rank()) == 3 * large + 3);
    CHECK(global_count(group, 0) == 0);
    CHECK_THROWS_WITH_AS(mean_scale(group, 0), doctest::Contains("no rank has a sample"),
                         ArgumentError);
    const Variable loss(Tensor::zeros({}, DType::kF64), true);
    CHECK_THROWS_AS(mean_over_ranks(loss, 0, group), ArgumentError);
    for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
      CHECK_THROWS_WITH_AS(global_count(group, group.rank() == 1 ? bad : 2),
                           doctest::Contains("1 of 3 ranks"), ArgumentError);
    }
    CHECK(global_count(group, 1) == 3);  // and the group goes on
  });
}

}  // namespace
}  // namespace lockstep

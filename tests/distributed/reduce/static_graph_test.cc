// static_graph learns the set of used parameters once; skip_unused_buckets leaves out what no rank
// uses.
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/base/timeline.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/models/resnet.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tests/distributed/reduce/counting_group.h"
#include "lockstep/tests/distributed/reduce/toy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cstring>

namespace lockstep {
namespace {

using testing::CountingGroup;
using testing::kAveraging;
using testing::on_ranks;
using testing::same_on_all;
using testing::thrown_by;
using testing::Toy;

constexpr int kRanks = 3;

TEST_CASE("static_graph: learned from the first synchronised backward, not exchanged again") {
  for (DdpMode mode : kAveraging) {
    for (const bool in_no_sync : {false, true}) {
      CAPTURE(name_of(mode));
      CAPTURE(in_no_sync);
      on_ranks(kRanks, [&](ProcessGroup& inner) {
        CountingGroup group(inner);
        Toy toy(group.rank());
        DataParallel ddp(toy, group, {.mode = mode, .replan = false, .static_graph = true});
        // Nobody uses p2, only rank 1 uses p6; p7 is used in the first micro-batches alone.
        const auto used = [&](bool first) {
          std::vector<int> unused{2};
          if (group.rank() != 1) unused.push_back(6);
          if (!first) unused.push_back(7);
          return Toy::all_but(unused);
        };
        int64_t reduced = 0;
        for (int step = 0; step < 6; step += 2) {
          toy.zero_grad();
          if (in_no_sync) {
            const NoSync no_sync = ddp.no_sync();
            toy.loss(step, used(true)).backward();
          }
          const int64_t before = group.all_reduces;
          toy.loss(step + 1, used(!in_no_sync)).backward();
          // The first one also counts the ranks.
          if (step == 0) reduced = group.all_reduces - before - 1;
          if (step > 0) check(group.all_reduces - before == reduced, "exchanged again");
          toy.expect(2, kRanks, {});
          if (in_no_sync) {
            toy.expect(6, kRanks, {{1, step}, {1, step + 1}});
            toy.expect(7, kRanks, {{0, step}, {1, step}, {2, step}});
          } else {
            toy.expect(6, kRanks, {{1, step + 1}});
            toy.expect_all_but({2, 6}, kRanks, step + 1);
          }
        }
      });
    }
  }
}

TEST_CASE("static_graph: a later difference on one rank is an error on all, and no hang") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    for (const bool more : {false, true}) {
      const std::vector<int> first = more ? Toy::all_but({3}) : Toy::all();
      const std::vector<int> later = more ? Toy::all() : Toy::all_but({3});
      on_ranks(kRanks, [&](ProcessGroup& group) {
        Toy toy(group.rank());
        DataParallel ddp(toy, group, {.mode = mode, .static_graph = true});
        for (int step = 0; step < 2; ++step) {
          toy.zero_grad();
          toy.loss(step, first).backward();
        }
        const std::string text =
            thrown_by([&] { toy.loss(2, group.rank() == 1 ? later : first).backward(); });
        check(text.find("static_graph") != std::string::npos &&
                  text.find("rank 1") != std::string::npos,
              "got \"", text, "\"");
      });
    }
  }
}

TEST_CASE("static_graph: a rank that fails in the middle does not add unlike buckets later") {
  // All buckets have one size, so nothing but the exchange can tell them apart.
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank(), /*mixed=*/false);
    DataParallel ddp(toy, group, {.bucket_cap_mb = 0, .replan = false, .static_graph = true});
    toy.loss(0).backward();
    toy.zero_grad();
    if (group.rank() != 1) {
      check(thrown_by([&] { toy.loss(1).backward(); }) != "", "unlike buckets were added");
      return;
    }
    {
      const HookHandle failing =
          toy.params[4].parameter.on_grad_ready([](const Variable&) { throw Error("stop"); });
      check(thrown_by([&] { toy.loss(1).backward(); }) == "stop", "no failure");
    }
    toy.zero_grad();
    check(thrown_by([&] { toy.loss(2).backward(); }) != "", "unlike buckets were added");
  });
}

TEST_CASE("skip_unused_buckets: what no rank uses does not travel, and the rest is right") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Timeline timeline;
      Toy toy(group.rank());
      std::vector<bool> last;
      DataParallel ddp(toy, group,
                       {.mode = mode,
                        .bucket_cap_mb = 0,
                        .first_bucket_cap_mb = 0,
                        .find_unused_parameters = true,
                        .skip_unused_buckets = true,
                        .reduction =
                            [&](const GradBucket& bucket) {
                              last.push_back(bucket.last);
                              return group.all_reduce(bucket.flat);
                            },
                        .timeline = &timeline});
      const std::vector<std::vector<int>> unused{{}, {0, 1, 2}, {6, 7, 8}, {3}, {0, 4, 8}};
      for (int step = 0; step < static_cast<int>(unused.size()); ++step) {
        const auto& skipped = unused[static_cast<size_t>(step)];
        // Rank 2 alone uses p5; all lack what is skipped.
        std::vector<int> order = Toy::all_but(skipped);
        if (group.rank() != 2) std::erase(order, 5);
        toy.zero_grad();
        last.clear();
        timeline.begin_step(step);
        toy.loss(step, order).backward();
        const int64_t sent = timeline.end_step().comm_bytes;
        int64_t bytes = 0;
        std::vector<int> rest = skipped;
        for (int i : Toy::all_but(skipped)) bytes += toy.specs[static_cast<size_t>(i)].bytes();
        check(sent == bytes, "step ", step, ": sent ", sent, " bytes, wanted ", bytes);
        rest.push_back(5);
        toy.expect_all_but(rest, kRanks, step);
        for (int i : skipped) toy.expect(i, kRanks, {});
        toy.expect(5, kRanks, {{2, step}});
        std::vector<bool> wanted(Toy::kParams - skipped.size());
        wanted.back() = true;
        check(last == wanted, "step ", step, ": another bucket is the last");
      }
    });
  }
}

TEST_CASE("static_graph with skip_unused_buckets: they are left out for good") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& inner) {
      CountingGroup group(inner);
      Toy toy(group.rank());
      DataParallel ddp(toy, group,
                       {.mode = mode,
                        .bucket_cap_mb = 0,
                        .first_bucket_cap_mb = 0,
                        .static_graph = true,
                        .skip_unused_buckets = true});
      std::vector<int> order{7, 3, 0, 8, 4};
      if (group.rank() == 2) order.push_back(5);
      for (int step = 0; step < 4; ++step) {
        toy.zero_grad();
        const int64_t before = group.all_reduces;
        toy.loss(step, order).backward();
        check(group.all_reduces - before == (step == 0 ? 7 : 6), "step ", step, ": ",
              group.all_reduces - before, " all-reduces");
        toy.expect_all_but({1, 2, 5, 6}, kRanks, step);
        toy.expect(5, kRanks, {{2, step}});
        for (int i : {1, 2, 6}) toy.expect(i, kRanks, {});
      }
    });
  }
}

TEST_CASE("layer drop of a residual network: whole buckets stay at home, and replicas agree") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Generator rng(1);
    const ResNetArchitecture net{ResNetBlock::kBasic, {3, 2}, {4, 6}, ResNetStem::kCifar};
    const auto train = [&](bool skip, std::vector<int64_t>& bytes) {
      Generator init(1);
      ResNet model(net, {.classes = 5, .layer_drop = 0.5, .layer_drop_seed = 3}, init);
      Timeline timeline;
      DataParallel ddp(model, group,
                       {.bucket_cap_mb = 0,
                        .first_bucket_cap_mb = 0,
                        .find_unused_parameters = true,
                        .skip_unused_buckets = skip,
                        .timeline = &timeline});
      Sgd optimizer(model.named_parameters(), {.lr = 0.05, .momentum = 0.9});
      const Variable images(testing::random_tensor(
          {2, 6, 6, 3}, 1 + static_cast<uint64_t>(group.rank()), -1, 1, DType::kF32));
      const Tensor labels = Tensor::from<int64_t>({group.rank(), 3}, {2});
      for (int step = 0; step < 12; ++step) {
        optimizer.zero_grad();
        timeline.begin_step(step);
        cross_entropy(model(images), labels).backward();
        bytes.push_back(timeline.end_step().comm_bytes);
        int64_t used = 0;
        for (const auto& [name, parameter] : model.named_parameters()) {
          if (parameter.grad()) used += static_cast<int64_t>(parameter.data().nbytes());
        }
        if (skip) check(bytes.back() == used, "sent ", bytes.back(), " bytes, used ", used);
        optimizer.step();
      }
      std::vector<std::byte> values;
      for (const NamedTensor& entry : model.state_dict()) {
        values.insert(values.end(), entry.tensor.raw(), entry.tensor.raw() + entry.tensor.nbytes());
      }
      const auto hash = std::hash<std::string_view>{}(
          {reinterpret_cast<const char*>(values.data()), values.size()});
      same_on_all(str(hash), group);
      return values;
    };
    std::vector<int64_t> all, some;
    const auto a = train(false, all), b = train(true, some);
    check(a == b, "skipping changed the result");
    int fewer = 0;
    for (size_t step = 0; step < all.size(); ++step) {
      check(all[step] == all[0] && some[step] <= all[0], "bytes");
      fewer += some[step] < all[0];
    }
    check(fewer >= 6, "only ", fewer, " of 12 steps sent less");
  });
}

}  // namespace
}  // namespace lockstep

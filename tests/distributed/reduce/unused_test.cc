// Parameters that a backward does not reach: a gradient that no rank has stays unset, one that some
// have is the mean over all ranks.
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

using testing::kAveraging;
using testing::on_ranks;
using testing::Toy;

constexpr int kRanks = 3;

/// In every mode, with each gradient alone and with several in a bucket.
void for_each_engine(const std::function<void(ProcessGroup&, const DdpOptions&)>& fn) {
  for (DdpMode mode : kAveraging) {
    for (double cap_mb : {0.0, 300.0 / 1024 / 1024}) {
      CAPTURE(name_of(mode));
      CAPTURE(cap_mb);
      on_ranks(kRanks, [&](ProcessGroup& group) {
        fn(group, {.mode = mode,
                   .bucket_cap_mb = cap_mb,
                   .first_bucket_cap_mb = cap_mb,
                   .find_unused_parameters = true});
      });
    }
  }
}

std::vector<Tensor> copies(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copied;
  for (const Tensor& t : tensors) copied.push_back(ops::clone(t));
  return copied;
}

TEST_CASE("used by no rank: no gradient, and a momentum optimizer moves neither value nor state") {
  for_each_engine([](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    Sgd optimizer(toy.params, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    toy.loss(0).backward();  // every parameter has momentum now
    optimizer.step();
    const auto of_p4 = [&] {
      for (const NamedTensor& state : optimizer.state().tensors) {
        if (state.name == "momentum.p4") {
          return copies({toy.params[4].parameter.data(), state.tensor});
        }
      }
      throw Error("no momentum");
    };
    const auto before = of_p4();
    for (int step = 1; step < 4; ++step) {
      optimizer.zero_grad();
      toy.loss(step, Toy::all_but({0, 4, 8})).backward();
      toy.expect_all_but({0, 4, 8}, kRanks, step);
      for (int unused : {0, 4, 8}) toy.expect(unused, kRanks, {});
      optimizer.step();
    }
    const auto after = of_p4();
    check(after[0].to_vector<float>() == before[0].to_vector<float>(), "the value moved");
    check(after[1].to_vector<float>() == before[1].to_vector<float>(), "the momentum moved");
    check(before[1].to_vector<float>()[0] != 0, "there was no momentum");
  });
}

TEST_CASE("used by one rank: defined everywhere, the idle ranks count as zero") {
  for_each_engine([](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    for (int step = 0; step < 3; ++step) {  // what an idle rank's slot holds from before must go
      toy.zero_grad();
      toy.loss(step, group.rank() == step ? Toy::all() : Toy::all_but({4, 5})).backward();
      toy.expect_all_but({4, 5}, kRanks, step);
      for (int i : {4, 5}) toy.expect(i, kRanks, {{step, step}});
    }
  });
}

TEST_CASE("in alternation: nobody, one rank, all") {
  for_each_engine([](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    for (int step = 0; step < 9; ++step) {
      const bool uses = step % 3 == 2 || (step % 3 == 1 && group.rank() == 1);
      toy.zero_grad();
      toy.loss(step, uses ? Toy::all() : Toy::all_but({3})).backward();
      toy.expect_all_but({3}, kRanks, step);
      if (step % 3 == 0) toy.expect(3, kRanks, {});
      if (step % 3 == 1) toy.expect(3, kRanks, {{1, step}});
      if (step % 3 == 2) toy.expect(3, kRanks, {{0, step}, {1, step}, {2, step}});
    }
  });
}

TEST_CASE("each rank takes another branch") {
  for_each_engine([](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    for (int step = 0; step < 3; ++step) {
      const auto branch = [step](int rank) { return 2 + (rank + step) % kRanks; };
      std::vector<int> used{0, 1, 5, 6, 7, 8, branch(group.rank())};
      toy.zero_grad();
      toy.loss(step, used).backward();
      toy.expect_all_but({2, 3, 4}, kRanks, step);
      for (int rank = 0; rank < kRanks; ++rank) {
        toy.expect(branch(rank), kRanks, {{rank, step}});
      }
    }
  });
}

TEST_CASE("an output that is not in the loss, and two heads of which one is") {
  for_each_engine([](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    for (int step = 0; step < 4; ++step) {
      // A trunk, and two heads on it; what the graph holds does not count, only what backward sees.
      toy.zero_grad();
      const Variable trunk = toy.loss(step, {0, 1, 2});
      const auto head = [&](int first) {
        Variable out = trunk;
        for (int i = first; i < first + 3; ++i) {
          const auto k = static_cast<size_t>(i);
          out = testing::add_term(out, toy.params[k].parameter,
                                  Toy::coefficients(toy.specs[k], group.rank(), step));
        }
        return out;
      };
      const Variable left = head(3), right = head(6);
      (step % 2 == 0 ? left : right).backward();
      const int unused = step % 2 == 0 ? 6 : 3;
      toy.expect_all_but({unused, unused + 1, unused + 2}, kRanks, step);
      for (int i = unused; i < unused + 3; ++i) toy.expect(i, kRanks, {});
    }
  });
}

TEST_CASE("micro-batches under no_sync count as uses, until the synchronised backward") {
  for_each_engine([](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    {
      const NoSync no_sync = ddp.no_sync();
      toy.loss(0, group.rank() == 2 ? Toy::all() : Toy::all_but({4})).backward();
      toy.loss(1, Toy::all_but({4})).backward();
    }
    toy.loss(2, Toy::all_but({4, 5})).backward();
    toy.expect(4, kRanks, {{2, 0}});
    toy.expect(5, kRanks, {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}});
    // The use has been consumed.
    toy.zero_grad();
    toy.loss(3, Toy::all_but({4})).backward();
    toy.expect(4, kRanks, {});
    toy.expect_all_but({4}, kRanks, 3);
  });
}

TEST_CASE("what zero_grad has forgotten since no_sync is no use") {
  for_each_engine([](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    {
      const NoSync no_sync = ddp.no_sync();
      toy.loss(0).backward();
      toy.zero_grad();
      toy.loss(1, Toy::all_but({4})).backward();
    }
    toy.loss(2, Toy::all_but({4, 5})).backward();
    toy.expect(4, kRanks, {});
    toy.expect(5, kRanks, {{0, 1}, {1, 1}, {2, 1}});
  });
}

TEST_CASE("a rank whose loss depends on nothing takes part") {
  for_each_engine([](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    for (int step = 0; step < 4; ++step) {
      const int idle = step % kRanks;
      toy.zero_grad();
      if (group.rank() == idle) {
        ddp.contribute_nothing();
      } else {
        toy.loss(step).backward();
      }
      std::vector<Toy::Use> uses;
      for (int rank = 0; rank < kRanks; ++rank) {
        if (rank != idle) uses.push_back({rank, step});
      }
      for (int i = 0; i < Toy::kParams; ++i) toy.expect(i, kRanks, uses);
    }
  });
}

TEST_CASE("gradients from before stay with a parameter that is unused now") {
  for_each_engine([](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    toy.loss(0).backward();
    toy.loss(1, Toy::all_but({4})).backward();  // no zero_grad: the mean of what is there is itself
    toy.expect(4, kRanks, {{0, 0}, {1, 0}, {2, 0}});
    toy.expect(3, kRanks, {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}, {2, 1}});
  });
}

}  // namespace
}  // namespace lockstep

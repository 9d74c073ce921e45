// The loops that people write around forward and backward.
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/nn/linear.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/reduce/counting_group.h"
#include "lockstep/tests/distributed/reduce/toy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>

namespace lockstep {
namespace {

using testing::add_term;
using testing::CountingGroup;
using testing::kAveraging;
using testing::on_ranks;
using testing::thrown_by;
using testing::Toy;

constexpr int kRanks = 3;

void for_each_mode(int ranks, const std::function<void(ProcessGroup&, const DdpOptions&)>& fn) {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(ranks, [&](ProcessGroup& group) {
      fn(group, {.mode = mode, .bucket_cap_mb = 300.0 / 1024 / 1024, .first_bucket_cap_mb = 0});
    });
  }
}

TEST_CASE("two forwards, one backward") {
  for_each_mode(kRanks, [](ProcessGroup& inner, const DdpOptions& options) {
    CountingGroup group(inner);
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    for (int step = 0; step < 4; step += 2) {
      const auto buckets = static_cast<int64_t>(ddp.plan().buckets.size());
      toy.zero_grad();
      const int64_t before = group.all_reduces;
      add(toy.loss(step), toy.loss(step + 1)).backward();
      toy.expect_all(kRanks, {step, step + 1});
      check(group.all_reduces - before == buckets + 1, "a bucket went twice");
    }
  });
}

TEST_CASE("two forwards, then their backwards: the buckets change between them") {
  for_each_mode(kRanks, [](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    const BucketPlan plan = ddp.plan();
    const std::vector<int> order{3, 1, 4, 0, 5, 2, 6, 8, 7};
    const Variable first = toy.loss(0, order), second = toy.loss(1, order);
    first.backward();
    toy.expect_all(kRanks, {0});
    check(plan != ddp.plan(), "the same plan");
    toy.zero_grad();
    second.backward();
    toy.expect_all(kRanks, {1});
  });
}

TEST_CASE("tied weights have one slot, the summed gradient, and one hook") {
  struct Tied : Module {
    Variable shared{Tensor::zeros({4, 3}, DType::kF64), true};
    Variable other{Tensor::zeros({5}, DType::kF64), true};
    Tied() {
      register_parameter("encoder", shared);
      register_parameter("other", other);
      register_parameter("decoder", shared);
    }
  };
  for_each_mode(kRanks, [](ProcessGroup& group, const DdpOptions& options) {
    Tied tied;
    DataParallel ddp(tied, group, options);
    check(ddp.param_specs().size() == 2, "tied weights have two slots");
    int fired = 0;
    const HookHandle hook = tied.shared.on_grad_ready([&](const Variable&) { ++fired; });
    const ParamSpec encoder{"encoder", {4, 3}, DType::kF64}, decoder{"decoder", {4, 3}},
        other{"other", {5}, DType::kF64};
    for (int step = 0; step < 3; ++step) {
      tied.zero_grad();
      const auto at = [&](const ParamSpec& spec, int rank) {
        return ops::cast(Toy::coefficients(spec, rank, step), DType::kF64);
      };
      Variable loss(Tensor::zeros({}, DType::kF64));
      loss = add_term(loss, tied.shared, at(encoder, group.rank()));
      loss = add_term(loss, tied.other, at(other, group.rank()));
      loss = add_term(loss, tied.shared, at(decoder, group.rank()));
      loss.backward();
      Tensor wanted = Tensor::zeros({4, 3}, DType::kF64);
      for (int rank = 0; rank < kRanks; ++rank) {
        ops::add_scaled(at(encoder, rank), 1.0 / kRanks, wanted);
        ops::add_scaled(at(decoder, rank), 1.0 / kRanks, wanted);
      }
      check(testing::relative_difference(*tied.shared.grad(), wanted) < 1e-12, "gradient");
      check(fired == step + 1, "the hook fired ", fired, " times in ", step + 1, " steps");
    }
  });
}

/// Two layers, f64.
struct Perceptron : Module {
  Perceptron(int64_t in, int64_t out, uint64_t seed)
      : rng(seed),
        first({.in_features = in, .out_features = 7}, rng),
        second({.in_features = 7, .out_features = out}, rng) {
    register_module("first", first);
    register_module("second", second);
    to(DType::kF64);
  }
  Variable forward(const Variable& x) { return second(relu(first(x))); }
  void freeze(bool frozen) {
    for (NamedParameter& named : named_parameters()) named.parameter.set_requires_grad(!frozen);
  }
  Generator rng;
  Linear first, second;
};

/// mean((x - target)^2)
Variable square_loss(const Variable& x, double target) {
  const Variable d = add_scalar(x, -target);
  return mean(mul(d, d));
}

/// Trains a generator against a discriminator; the parameters of both at the end.
std::vector<Tensor> train_gan(ProcessGroup& group, bool freeze, const DdpOptions& options) {
  constexpr int64_t kBatch = 12;
  Perceptron generator(3, 4, 1), discriminator(4, 1, 2);
  DataParallel ddp_g(generator, group, options), ddp_d(discriminator, group, options);
  Sgd sgd_g(generator.named_parameters(), {.lr = 0.1, .momentum = 0.9});
  Sgd sgd_d(discriminator.named_parameters(), {.lr = 0.1, .momentum = 0.9});
  const int64_t part = kBatch / group.size(), begin = group.rank() * part;
  const auto batch = [&](uint64_t seed, int64_t width) {
    return Variable(testing::random_tensor({kBatch, width}, seed).slice(begin, begin + part));
  };
  for (uint64_t step = 0; step < 8; ++step) {
    const Variable fake = generator.forward(batch(3 * step, 3));
    sgd_d.zero_grad();
    add(square_loss(discriminator.forward(batch(3 * step + 1, 4)), 1),
        square_loss(discriminator.forward(fake.detach()), 0))
        .backward();
    sgd_d.step();

    sgd_g.zero_grad();
    if (freeze) discriminator.freeze(true);
    square_loss(discriminator.forward(fake), 1).backward();  // through the other wrapped model
    if (freeze) discriminator.freeze(false);
    sgd_g.step();
  }
  std::vector<Tensor> values;
  for (Perceptron* net : {&generator, &discriminator}) {
    for (const NamedParameter& named : net->named_parameters()) {
      values.push_back(ops::clone(named.parameter.data()));
    }
  }
  return values;
}

TEST_CASE("two wrapped models in turn, one step going through the other, train as one process") {
  for (const bool freeze : {false, true}) {
    CAPTURE(freeze);
    const auto single = make_single_group();
    const auto one = train_gan(*single, freeze, {});
    for_each_mode(kRanks, [&](ProcessGroup& group, const DdpOptions& options) {
      const auto several = train_gan(group, freeze, options);
      for (size_t i = 0; i < one.size(); ++i) {
        const double difference = testing::relative_difference(several[i], one[i]);
        check(difference < 1e-12, "parameter ", i, " differs by ", difference);
      }
    });
  }
}

TEST_CASE("the other model's share of a step under its no_sync is forgotten with its gradients") {
  for_each_mode(kRanks, [](ProcessGroup& group, const DdpOptions& options) {
    DdpOptions search = options;
    search.find_unused_parameters = true;
    Toy a(group.rank()), b(group.rank());
    DataParallel ddp_a(a, group, options), ddp_b(b, group, search);
    for (int step = 0; step < 3; ++step) {
      a.zero_grad();
      {
        const NoSync no_sync = ddp_b.no_sync();
        add(a.loss(step), b.loss(step)).backward();
      }
      a.expect_all(kRanks, {step});
      b.zero_grad();
      b.loss(step, Toy::all_but({4})).backward();
      b.expect_all_but({4}, kRanks, step);
      b.expect(4, kRanks, {});
    }
  });
}

TEST_CASE("a model can be wrapped again, and is its owner's between") {
  for_each_mode(kRanks, [](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    for (int step = 0; step < 4; step += 2) {
      {
        DataParallel ddp(toy, group, options);
        toy.loss(step).backward();  // added to what the owner's backward left
        toy.expect_all(kRanks, step == 0 ? std::vector<int>{0} : std::vector<int>{1, 2});
      }
      check(!toy.grad(4), "a gradient outlives its memory");
      toy.loss(step + 1).backward();
      const Tensor mine = Toy::coefficients(toy.specs[4], group.rank(), step + 1);
      check(testing::relative_difference(*toy.grad(4), mine) < testing::kTolerance, "averaged");
    }
  });
}

TEST_CASE("a gradient that something else has taken is named, not left unaveraged") {
  for_each_mode(kRanks, [](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    const auto refused = [&] {
      const std::string text = thrown_by([&] { toy.loss(0).backward(); });
      check(text.find("is no longer in its bucket") != std::string::npos, "got \"", text, "\"");
    };
    const auto averaged = [&](int step) {
      toy.zero_grad();
      toy.loss(step).backward();
      toy.expect_all(kRanks, {step});
    };
    // The second is made before the first goes, and loses the gradients with it.
    auto ddp = std::make_unique<DataParallel>(toy, group, options);
    ddp = std::make_unique<DataParallel>(toy, group, options);
    refused();
    ddp->rebuild();
    averaged(0);
    {
      const DataParallel twice(toy, group, options);
      refused();
    }
    refused();
    ddp->rebuild();
    averaged(1);
    Variable one = toy.params[3].parameter;
    one.bind_grad(Tensor::zeros(one.shape(), one.dtype()));
    refused();
    ddp->rebuild();
    averaged(2);
  });
}

TEST_CASE("no_sync counts where backward runs, not where forward ran") {
  for_each_mode(kRanks, [](ProcessGroup& inner, const DdpOptions& options) {
    CountingGroup group(inner);
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    const int64_t before = group.calls;
    const Variable outside = toy.loss(0);
    {
      const NoSync no_sync = ddp.no_sync();
      outside.backward();
    }
    check(group.calls == before, "it communicated under no_sync");
    for (int i = 0; i < Toy::kParams; ++i) {
      const Tensor mine = Toy::coefficients(toy.specs[static_cast<size_t>(i)], group.rank(), 0);
      check(testing::relative_difference(*toy.grad(i), mine) < testing::kTolerance, "p", i);
    }
    std::optional<Variable> inside;
    {
      const NoSync no_sync = ddp.no_sync();
      const NoSync nested = ddp.no_sync();
      inside = toy.loss(1);
    }
    inside->backward();
    toy.expect_all(kRanks, {0, 1});
  });
}

TEST_CASE("the first gradient decides for all of a backward") {
  for_each_mode(kRanks, [](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    std::unique_ptr<NoSync> no_sync;
    {
      const HookHandle late = toy.params[5].parameter.on_grad_ready(
          [&](const Variable&) { no_sync.reset(new NoSync(ddp.no_sync())); });
      toy.loss(0).backward();
      toy.expect_all(kRanks, {0});
    }
    toy.zero_grad();
    {
      const HookHandle late =
          toy.params[5].parameter.on_grad_ready([&](const Variable&) { no_sync.reset(); });
      toy.loss(1).backward();
    }
    toy.loss(2).backward();
    toy.expect_all(kRanks, {1, 2});
  });
}

TEST_CASE("accumulated 1 + 3, 2 + 5 (and 2.5 + 3) are 5.5 on every rank, not 4, not 7") {
  struct Weight : Module {
    Variable weight{Tensor::zeros({1}, DType::kF64), true};
    Weight() { register_parameter("weight", weight); }
  };
  for (int ranks : {2, 3}) {
    for_each_mode(ranks, [](ProcessGroup& group, const DdpOptions& options) {
      const double contributions[3][2] = {{1, 3}, {2, 5}, {2.5, 3}};
      const auto& mine = contributions[group.rank()];
      Weight net;
      DataParallel ddp(net, group, options);
      const auto backward = [&](double gradient) {
        add_term(Variable(Tensor::zeros({}, DType::kF64)), net.weight,
                 Tensor::from<double>({gradient}, {1}))
            .backward();
      };
      for (int step = 0; step < 3; ++step) {
        net.zero_grad();
        {
          const NoSync no_sync = ddp.no_sync();
          backward(mine[0]);
        }
        backward(mine[1]);
        const double got = net.weight.grad()->item();
        check(std::abs(got - 5.5) < 1e-12, "got ", got);  // a third is rounded
      }
    });
  }
}

TEST_CASE("zero_grad by forgetting, and by filling with zeros") {
  for_each_mode(kRanks, [](ProcessGroup& group, const DdpOptions& options) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, options);
    toy.loss(0).backward();
    for (int step = 1; step < 5; ++step) {
      const Tensor before = *toy.grad(4);
      if (step % 2 == 0) {
        toy.zero_grad();
        check(!toy.grad(4), "not forgotten");
      } else {
        for (int i = 0; i < Toy::kParams; ++i) {
          Tensor grad = *toy.grad(i);
          ops::fill(grad, 0);
        }
      }
      toy.loss(step).backward();
      toy.expect_all(kRanks, {step});
      check(toy.grad(4)->raw() == before.raw(), "the gradient left its bucket");
    }
  });
}

}  // namespace
}  // namespace lockstep

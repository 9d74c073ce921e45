// Trainer: batches whose losses are about unlike numbers of items, as those of masked words are.
// N ranks give the gradient of one process that has all items.
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/nn/module.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/trainer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace lockstep {
namespace {

constexpr int64_t kFeatures = 4;

struct Net : Module {
  Variable weight{Tensor::from<double>({0.3, -0.2, 0.5, 0.1}, {kFeatures, 1}), true};
  Net() { register_parameter("weight", weight); }
};

/// Items `first` to `first + count - 1` of an endless data set: [count, kFeatures] and [count, 1].
struct Items {
  Tensor x, y;
};
Items items(int64_t first, int64_t count) {
  std::vector<double> x, y;
  for (int64_t i = first; i < first + count; ++i) {
    for (int64_t f = 0; f < kFeatures; ++f) {
      x.push_back(std::sin(static_cast<double>(7 * i + 3 * f)));
    }
    y.push_back(std::cos(static_cast<double>(5 * i)));
  }
  return {Tensor::from(x, {count, kFeatures}), Tensor::from(y, {count, 1})};
}

struct Part {
  int64_t first, count;
  int64_t second_first = 1000, second_count = 2;
};

/// An epoch of given parts; a second loss, alike for all batches or weighed, if wanted. Without
/// items the loss is a mean over none, or there is none.
class Source : public BatchSource {
 public:
  Source(Net& net, std::vector<Part> parts, bool second, bool passes_over = false,
         bool weighs_second = false)
      : net_(net),
        parts_(std::move(parts)),
        second_(second),
        passes_over_(passes_over),
        weighs_second_(weighs_second) {}

  int64_t batches() const override { return static_cast<int64_t>(parts_.size()); }
  void begin_epoch(int64_t /*epoch*/, int64_t start) override { loaded_ = run_ = start; }
  bool load() override { return loaded_ < batches() && ++loaded_ > 0; }
  bool weighs() const override { return true; }
  int64_t weight() const override { return part(loaded_ - 1).count; }
  bool weighs_second() const override { return weighs_second_; }
  int64_t second_weight() const override { return part(loaded_ - 1).second_count; }
  BatchResult run() override {
    const Part& now = part(run_++);
    if (passes_over_ && now.count == 0) return {};
    const Items batch = items(now.first, now.count);
    BatchResult result{.loss = loss(batch), .counted = now.count, .samples = 1};
    if (second_)
      result.second = {.loss = loss(items(now.second_first, now.second_count)),
                       .correct = Tensor::from<int64_t>({1}, {}),
                       .counted = now.second_count};
    return result;
  }

 private:
  const Part& part(int64_t i) const { return parts_[static_cast<size_t>(i)]; }
  Variable loss(const Items& batch) const {
    return mse_loss(matmul(Variable(batch.x), net_.weight), Variable(batch.y));
  }

  Net& net_;
  std::vector<Part> parts_;
  bool second_, passes_over_, weighs_second_;
  int64_t loaded_ = 0, run_ = 0;
};

struct Case {
  std::vector<std::vector<Part>> parts;  // of each rank, for one step
  bool second = false;
  bool passes_over = false;
  bool find_unused = false;
  bool weighs_second = false;
  DdpMode mode = DdpMode::kOverlapped;
  std::string dir = {};
};

/// The weights of each rank after a step of rate 1.
std::vector<std::vector<double>> train(const Case& wanted) {
  std::vector<std::vector<double>> weights(wanted.parts.size());
  spawn(static_cast<int>(wanted.parts.size()), [&](ProcessGroup& group) {
    const auto rank = static_cast<size_t>(group.rank());
    Net net;
    Source train_data(net, wanted.parts[rank], wanted.second, wanted.passes_over,
                      wanted.weighs_second);
    Source test_data(net, {{static_cast<int64_t>(rank), static_cast<int64_t>(rank)}}, false);
    Timeline timeline;
    DataParallel ddp(
        net, group,
        {.mode = wanted.mode, .find_unused_parameters = wanted.find_unused, .timeline = &timeline});
    Sgd optimizer(net.named_parameters(), {.lr = 1});
    Generator rng(1);
    std::unique_ptr<RunDir> run_dir;
    if (rank == 0 && !wanted.dir.empty()) {
      run_dir = std::make_unique<RunDir>(RunDirOptions{.path = wanted.dir});
    }
    Trainer trainer({.model = net,
                     .ddp = ddp,
                     .group = group,
                     .optimizer = optimizer,
                     .schedule = constant_schedule(),
                     .train_data = train_data,
                     .test_data = test_data,
                     .rng = rng,
                     .timeline = timeline,
                     .run_dir = run_dir.get()},
                    {.grad_accum_steps = static_cast<int64_t>(wanted.parts[rank].size())});
    trainer.run();
    weights[rank] = net.weight.data().to_vector<double>();
  });
  return weights;
}

/// The largest difference, relative to the largest weight.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

// Sums of nine items in another order, in f64.
constexpr double kRounding = 1e-14;

TEST_CASE("three ranks with 7, 2 and 0 items are one process with 9") {
  for (const bool second : {false, true}) {
    CAPTURE(second);
    const auto whole = train({.parts = {{{0, 9}}}, .second = second})[0];
    CHECK(difference(whole, {0.3, -0.2, 0.5, 0.1}) > 0.01);
    for (const DdpMode mode : {DdpMode::kOverlapped, DdpMode::kBucketed, DdpMode::kNaive}) {
      for (const auto& weights :
           train({.parts = {{{0, 7}}, {{7, 2}}, {{9, 0}}}, .second = second, .mode = mode})) {
        CHECK(difference(weights, whole) < kRounding);
      }
    }
    const auto accumulated =
        train({.parts = {{{0, 3}, {3, 4}}, {{7, 2}, {9, 0}}, {{9, 0}, {9, 0}}}, .second = second});
    for (const auto& weights : accumulated) CHECK(difference(weights, whole) < kRounding);
  }
}

TEST_CASE("a rank without items may pass the model over, and what it accumulated before counts") {
  const auto whole = train({.parts = {{{0, 9}}}})[0];
  for (const bool find_unused : {false, true}) {
    for (const DdpMode mode : {DdpMode::kOverlapped, DdpMode::kBucketed, DdpMode::kNaive}) {
      const auto ranks = train({.parts = {{{0, 3}, {3, 4}}, {{7, 2}, {9, 0}}, {{9, 0}, {9, 0}}},
                                .passes_over = true,
                                .find_unused = find_unused,
                                .mode = mode});
      for (const auto& weights : ranks) {
        CHECK(difference(weights, whole) < kRounding);
        CHECK(weights == ranks[0]);
      }
    }
  }
}

TEST_CASE("both losses are means over all of their own items") {
  const auto whole = train({.parts = {{{0, 9, 100, 5}}}, .second = true})[0];
  const Case shared{.parts = {{{0, 7, 100, 1}}, {{7, 2, 101, 4}}, {{9, 0, 0, 0}}},
                    .second = true,
                    .passes_over = true,
                    .weighs_second = true};
  Case accumulated = shared;
  accumulated.parts = {{{0, 3, 100, 1}, {3, 4, 0, 0}},
                       {{7, 1, 101, 2}, {8, 1, 103, 2}},
                       {{9, 0, 0, 0}, {9, 0, 0, 0}}};
  for (const Case& wanted : {shared, accumulated}) {
    for (const auto& weights : train(wanted)) CHECK(difference(weights, whole) < kRounding);
  }
}

TEST_CASE("items that nobody has leave the weights alone, and the run goes on") {
  const testing::TempDir dir;
  for (const auto& weights : train({.parts = {{{0, 0}}, {{0, 0}}, {{0, 0}}}, .dir = dir / "run"})) {
    CHECK(weights == std::vector<double>{0.3, -0.2, 0.5, 0.1});
  }
  const std::string metrics = testing::read_text(dir / "run/metrics.jsonl");
  CHECK_MESSAGE(metrics.find("\"loss\":null") != metrics.npos, metrics);
  // The evaluation has 0, 1 and 2 items.
  CHECK_MESSAGE(metrics.find("\"test_samples\":3.0") != metrics.npos, metrics);
}

TEST_CASE("ranks that do not communicate weigh their own batches alone") {
  const auto apart = train({.parts = {{{0, 7}}, {{7, 2}}}, .mode = DdpMode::kLocal});
  CHECK(apart[0] == train({.parts = {{{0, 7}}}})[0]);
  CHECK(apart[1] == train({.parts = {{{7, 2}}}})[0]);
}

}  // namespace
}  // namespace lockstep

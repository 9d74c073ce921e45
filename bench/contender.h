// Contender: one way to train a ResNet on made-up images, which takes a step when it is asked to.
// Benchmarks let several of them take turns, because a machine drifts more between minutes than the
// ways differ.
#pragma once

#include "lockstep/base/timeline.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/models/resnet.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/random.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep::bench {

/// What is trained: the same for all contenders of one benchmark.
struct Workload {
  std::string model = "resnet18";
  ResNetStem stem = ResNetStem::kCifar;
  int64_t size = 32;   // height and width of the images
  int64_t batch = 64;  // images in a step, of each rank
  int64_t classes = 10;
};

/// "cifar" for images of up to 64 pixels, else "imagenet".
ResNetStem stem_for(int64_t image_size);

struct SyntheticBatch {
  Tensor images;  // f32 [batch, size, size, 3], N(0, 1)
  Tensor labels;  // i64 [batch]
};
SyntheticBatch make_batch(const Workload& workload, uint64_t seed);

/// How gradients are averaged.
struct Way {
  DdpMode mode = DdpMode::kOverlapped;
  double cap_mb = 25;
  std::optional<double> last_cap_mb = std::nullopt;
  int sync_every = 1;  // backwards to a step; all but the last run under no_sync
  bool timeline = true;

  /// "overlapped, 25 MB", "naive", "overlapped, 25 MB, every 4th"
  std::string name() const;
};

struct StepCost {
  StepSummary times;  // zeros without a timeline
  double wall_ms = 0;
  double cpu_ms = 0;  // of all threads of this process
};

class Contender {
 public:
  /// Collective over `group`, which outlives the contender.
  Contender(const Workload& workload, const Way& way, ProcessGroup& group);

  /// One step of the optimizer, after `sync_every` forwards and backwards. Collective.
  StepCost step(const SyntheticBatch& batch);

 private:
  void backward(const Variable& loss, bool synchronize);
  Timeline* timeline() { return timeline_ ? &*timeline_ : nullptr; }

  Way way_;
  Generator rng_;
  std::unique_ptr<ResNet> model_;
  std::optional<Timeline> timeline_;
  std::optional<DataParallel> ddp_;
  std::optional<Sgd> optimizer_;
  int64_t step_ = 0;
};

}  // namespace lockstep::bench

// CapturedStep: a training step that is captured as a graph (device_graph.h) and replayed, with the
// bits of the step as the host would have run it.
//
//   CapturedStep captured(Device::cuda());
//   for (...) {
//     ... bring the batch into tensors that stay where they are ...
//     captured.run([&] { optimizer.zero_grad(); loss = ...; loss.backward(); },
//                  [&] { optimizer.set_lr_factor(schedule(step)); optimizer.step(); });
//   }
//
// The first runs are the host's, until one has asked the driver for no memory; then a run is
// captured, and replayed from there on. What a run of the host's leaves on the host, a replay does
// as well: random generators advance as they did in the captured run, what is counted by
// in_each_step() counts, and `update` runs again, without its kernels, so that the numbers that
// they read (live.h) are those of the step.
//
// The step must do the same each time, but for the contents of its tensors: the same shapes, no
// look at the device's values, no memory that has moved since (DataParallel::rebuild, Module::to).
// Under Autocast nobody but the optimizer may change parameters in between, whose bf16 shadows the
// graph reads. Its memory is that of a stream of its own, which nobody else allocates on.
#pragma once

#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/live.h"
#include "lockstep/tensor/random.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

class CapturedStep {
 public:
  /// Throws UnsupportedError where the device has no graphs, in the run that would be captured.
  explicit CapturedStep(Device device);
  /// Waits for the device.
  ~CapturedStep();
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  /// All of the step but its end. Where it is captured, nothing in it can be measured.
  using Body = std::function<void()>;
  /// The step's end, which alone takes numbers that change: the optimizer, moving averages. Must
  /// not copy, clear or look at memory by itself.
  using Update = std::function<void()>;

  /// What the host enqueues on the current stream before and after this is before and after the
  /// step. Tensors that the step makes and that stay are the graph's own from the captured run on:
  /// each replay writes them anew. Throws Error when the step does not repeat itself.
  void run(const Body& body, const Update& update);
  /// Whether the next run is captured or replayed.
  bool ready() const { return warm_ || captured(); }
  /// Whether the last run was.
  bool captured() const { return graph_ != nullptr; }

 private:
  friend void note_for_each_step(std::function<void()> effect);
  friend bool captures_step();
  struct Drawn {
    Generator* generator;
    uint64_t seed;
    uint64_t blocks;  // that a step takes
  };
  void run_on_host(const Body& body, const Update& update);
  void capture(const Body& body, const Update& update);
  void refresh(const Update& update);

  static inline thread_local CapturedStep* capturing_ = nullptr;

  const Device device_;
  LiveNumbers numbers_;
  const std::unique_ptr<Stream> stream_;
  bool warm_ = false;  // the last run on the host asked the driver for nothing
  std::vector<Drawn> drawn_;
  std::vector<std::function<void()>> effects_;
  std::unique_ptr<DeviceGraph> graph_;  // null: not captured yet
};

void note_for_each_step(std::function<void()> effect);
bool captures_step();

/// Runs `effect` now and, if this thread is capturing a step, in each of its replays: for what a
/// step counts on the host.
template <class Effect>
void in_each_step(Effect effect) {
  effect();
  if (captures_step()) note_for_each_step(std::move(effect));
}

}  // namespace lockstep

#include "lockstep/tensor/captured_step.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/memory.h"

#include <algorithm>

namespace lockstep {

CapturedStep::CapturedStep(Device device)
    : device_(device),
      numbers_(device),
      stream_(device_streams(device).create(StreamPriority::kNormal)) {
  // What the captured run frees is the graph's, even where memory is short.
  device_memory(device).allocator.hold(stream_.get(), true);
}

CapturedStep::~CapturedStep() {
  try {
    stream_->record()->wait_host();
  } catch (const std::exception&) {
    // The device has failed, and whoever uses it next is told.
  }
  device_memory(device_).allocator.hold(stream_.get(), false);
}

void CapturedStep::run(const Body& body, const Update& update) {
  Stream& outside = current_stream(device_);
  stream_->wait(outside.record());
  {
    const StreamGuard guard(device_, *stream_);
    if (graph_ != nullptr) {
      refresh(update);
    } else if (warm_) {
      capture(body, update);
    } else {
      run_on_host(body, update);
    }
    if (graph_ != nullptr) {
      numbers_.upload();
      graph_->replay(*stream_);
    }
  }
  outside.wait(stream_->record());
}

void CapturedStep::run_on_host(const Body& body, const Update& update) {
  const Allocator& allocator = device_memory(device_).allocator;
  const uint64_t misses = allocator.stats().misses;
  const GeneratorLog log;
  body();
  update();
  warm_ = allocator.stats().misses == misses;
  drawn_.clear();
  for (const auto& [generator, before] : log.entries()) {
    drawn_.push_back({generator, before.seed, generator->state().next_block - before.next_block});
  }
}

void CapturedStep::capture(const Body& body, const Update& update) {
  struct Bases {
    ~Bases() {
      for (const Drawn& drawn : step.drawn_) drawn.generator->set_base(nullptr);
      capturing_ = nullptr;
    }
    CapturedStep& step;
  };
  LiveNumbers::Scope places(numbers_, LiveNumbers::Pass::kCapture);
  effects_.clear();
  const GeneratorLog log;
  GraphCapture capture(*stream_);
  const Bases bases{*this};
  capturing_ = this;
  for (const Drawn& drawn : drawn_) {
    drawn.generator->set_base(live(drawn.generator->state().next_block).at);
  }
  body();
  update();
  auto graph = capture.finish();
  for (const auto& [generator, before] : log.entries()) {
    const uint64_t blocks = generator->state().next_block - before.next_block;
    const bool known =
        std::any_of(drawn_.begin(), drawn_.end(), [&, g = generator](const Drawn& d) {
          return d.generator == g && d.seed == before.seed && d.blocks == blocks;
        });
    if (!known) throw Error("a captured step draws other random numbers than the one before it");
  }
  graph_ = std::move(graph);
}

void CapturedStep::refresh(const Update& update) {
  LiveNumbers::Scope places(numbers_, LiveNumbers::Pass::kRefresh);
  for (const auto& [generator, seed, blocks] : drawn_) {
    const Generator::State now = generator->state();
    check(now.seed == seed, "a captured step draws from a generator that has another seed now");
    live(now.next_block);
    generator->set_state({now.seed, now.next_block + blocks});
  }
  for (const auto& effect : effects_) effect();
  update();
  places.finish();
}

bool captures_step() { return CapturedStep::capturing_ != nullptr; }

void note_for_each_step(std::function<void()> effect) {
  CapturedStep::capturing_->effects_.push_back(std::move(effect));
}

}  // namespace lockstep

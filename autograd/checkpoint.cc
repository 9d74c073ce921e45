#include "lockstep/autograd/checkpoint.h"

#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/node.h"
#include "lockstep/autograd/recording.h"
#include "lockstep/tensor/random.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace lockstep {
namespace {

thread_local bool second_call = false;

/// For the second call: recording is on, and recomputing() tells.
class SecondCall {
 public:
  SecondCall() : before_(std::exchange(second_call, true)) {}
  ~SecondCall() { second_call = before_; }
  SecondCall(const SecondCall&) = delete;
  SecondCall& operator=(const SecondCall&) = delete;

 private:
  bool before_;
  RecordAgain record_;
};

/// Puts generators back to where they were in forward, and at its end to where they are now.
class Rewind {
 public:
  explicit Rewind(const std::vector<GeneratorLog::Entry>& entries) {
    for (const auto& [generator, before] : entries) {
      now_.push_back({generator, generator->state()});
      generator->set_state(before);
    }
  }
  ~Rewind() {
    for (const auto& [generator, state] : now_) generator->set_state(state);
  }
  Rewind(const Rewind&) = delete;
  Rewind& operator=(const Rewind&) = delete;

 private:
  std::vector<GeneratorLog::Entry> now_;
};

using Ends = std::vector<Edge>;
const void* target_of(const Edge& edge) {
  return edge.node != nullptr ? static_cast<const void*>(edge.node.get())
                              : static_cast<const void*>(edge.leaf.get());
}

/// The leaves and the nodes older than `first`, or among `known`, that the graph below `root`
/// leads to, each once.
Ends ends_of(const std::shared_ptr<Node>& root, uint64_t first,
             const std::unordered_set<const void*>& known) {
  Ends ends;
  std::vector<const Node*> open{root.get()};
  std::unordered_set<const void*> seen;
  while (!open.empty()) {
    const Node& node = *open.back();
    open.pop_back();
    for (const Edge& edge : node.inputs) {
      const void* target = target_of(edge);
      if (target == nullptr || !seen.insert(target).second) continue;
      const bool inside =
          edge.node != nullptr && edge.node->sequence >= first && !known.contains(target);
      if (inside) {
        open.push_back(edge.node.get());
      } else {
        ends.push_back(edge);
      }
    }
  }
  return ends;
}

/// What backward needs.
struct Kept {
  CheckpointFn fn;
  std::vector<Variable> inputs;
  std::vector<Saved> values;  // of the inputs and of the leaves that fn uses
  std::vector<GeneratorLog::Entry> generators;
  std::unordered_set<const void*> ends;
  DType precision = Autocast::current();

  Variable call_again(const Tensor& grad) const {
    for (const Saved& value : values) value.get();
    const Rewind rewind(generators);
    const SecondCall second;
    const Autocast as_before(precision);
    const uint64_t first = Node::next_sequence();
    Variable again = fn(inputs);
    const char* kOther = "checkpoint: the function did not do the same when it was called again";
    check(again.defined() && again.requires_grad() && !again.is_leaf() &&
              again.producer()->sequence >= first && again.shape() == grad.shape() &&
              again.dtype() == grad.dtype(),
          kOther);
    const Ends now = ends_of(again.producer(), first, ends);
    check(now.size() == ends.size() &&
              std::all_of(now.begin(), now.end(),
                          [this](const Edge& edge) { return ends.contains(target_of(edge)); }),
          kOther, ": its result depends on ", now.size(), " variables from outside, in forward on ",
          ends.size(), ", or on others");
    return again;
  }
};

}  // namespace

bool recomputing() { return second_call; }

Variable checkpoint(CheckpointFn fn, std::vector<Variable> inputs) {
  if (!grad_enabled() || OutlineOnly::active()) return fn(inputs);
  Kept kept;
  std::unordered_set<const void*> known;
  for (const Variable& input : inputs) {
    if (!input.defined()) continue;
    kept.values.emplace_back(input.data());
    if (!input.is_leaf()) known.insert(input.producer().get());
  }
  const uint64_t first = Node::next_sequence();
  Variable result;
  {
    const OutlineOnly outline;
    const GeneratorLog log;
    result = fn(inputs);
    kept.generators = log.entries();
  }
  check(result.defined(), "checkpoint: the function returned an undefined variable");
  if (result.is_leaf() || result.producer()->sequence < first ||
      known.contains(result.producer().get())) {
    return result;  // nothing in it has a gradient, or it did nothing
  }
  Ends ends = ends_of(result.producer(), first, known);
  for (const Edge& edge : ends) {
    kept.ends.insert(target_of(edge));
    if (edge.leaf != nullptr) kept.values.emplace_back(edge.leaf->data);
  }
  kept.fn = std::move(fn);
  kept.inputs = std::move(inputs);
  auto node =
      std::make_shared<Node>("checkpoint", result.data(),
                             [kept = std::move(kept)](const Tensor& grad_out, GradSink& sink) {
                               sink.go_on_from(kept.call_again(grad_out), grad_out);
                             });
  node->inputs = std::move(ends);
  return Node::result(result.data(), std::move(node));
}

}  // namespace lockstep

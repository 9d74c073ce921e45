// A model whose gradients are known whatever its values: what tests of the reducer and of
// DataParallel compare with.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/reduce/bucket_plan.h"
#include "lockstep/distributed/reduce/ddp_mode.h"
#include "lockstep/nn/module.h"

#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

inline constexpr DdpMode kAveraging[] = {DdpMode::kNaive, DdpMode::kBucketed, DdpMode::kOverlapped};

/// Gradients of f32 and f64 are compared with an f64 sum: f32's rounding of a few additions.
inline constexpr double kTolerance = 1e-6;

/// total + sum(coefficients * parameter): a linear loss, whose gradients are the coefficients.
Variable add_term(const Variable& total, const Variable& parameter, const Tensor& coefficients);

/// One rank's replica: parameters of several sizes and both dtypes ("p0", "p1", ...), on `device`.
struct Toy : Module {
  explicit Toy(int rank, bool mixed = true, Device device = Device::cpu());

  /// The gradient that a rank's loss of `step` brings a parameter.
  static Tensor coefficients(const ParamSpec& spec, int rank, int step);

  /// Uses the parameters in the given order; backward completes them in the reverse one.
  Variable loss(int step, const std::vector<int>& order) const;
  Variable loss(int step) const { return loss(step, all()); }
  static std::vector<int> all();
  static std::vector<int> all_but(const std::vector<int>& unused);

  /// On the host.
  std::optional<Tensor> grad(int param) const;
  /// The gradient when these (rank, step) used the parameter, as a mean over `ranks`.
  struct Use {
    int rank;
    int step;
  };
  Tensor mean_of(int param, int ranks, const std::vector<Use>& uses) const;
  /// Throws unless that is the gradient; without a use, unless there is none.
  void expect(int param, int ranks, const std::vector<Use>& uses) const;
  /// As expect, for every parameter, used by all ranks in these steps.
  void expect_all(int ranks, const std::vector<int>& steps) const;
  void expect_all_but(const std::vector<int>& params, int ranks, int step) const;

  static constexpr int kParams = 9;
  int rank;
  Device device;
  std::vector<NamedParameter> params;
  std::vector<ParamSpec> specs;
};

/// Sleeps up to a millisecond, differently for each rank and operation.
void random_delay(int rank, int64_t sequence);

/// Runs fn on each rank, with one computing thread and random delays in the collectives. What a
/// rank throws fails the test.
void on_ranks(int ranks, const std::function<void(ProcessGroup&)>& fn);

/// The message of what fn throws, "" if nothing.
std::string thrown_by(const std::function<void()>& fn);

/// Throws unless every rank has the same text, which is returned. Collective.
std::string same_on_all(const std::string& text, ProcessGroup& group);

}  // namespace lockstep::testing

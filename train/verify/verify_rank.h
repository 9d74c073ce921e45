// One rank of a verification.
#pragma once

#include "lockstep/distributed/replica_check.h"
#include "lockstep/train/verify/one_process.h"
#include "lockstep/train/verify/verify.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

class VerifyRank {
 public:
  /// `group` and `report` must outlive this; the report is filled on rank 0, `passed` and the
  /// verdict everywhere.
  VerifyRank(ProcessGroup& group, const VerifyModel& model, const VerifyBatch& batch,
             const VerifyOptions& options, VerifyReport& report);

  /// Collective. Throws Error that says at which step, in which mode.
  void run();

 private:
  /// Where replicas come from.
  struct Source {
    VerifyModel model;
    VerifyBatch batch;
  };
  /// A replica in one mode, and what it was found to do.
  struct Candidate {
    std::string name;  // of the mode
    const Source& source;
    std::unique_ptr<Replica> replica = {};
    /// The first parameter whose gradient was not finite on this rank; shared with the reduction.
    std::shared_ptr<std::string> not_finite = std::make_shared<std::string>();
    std::vector<HookHandle> delays = {};
  };
  /// Rank 0's: a candidate beside what it has to be.
  struct Comparison {
    size_t check;  // in the report
    const std::vector<NamedParameter>* got;
    const std::vector<NamedParameter>* wanted;
    const double* noise;  // null: not a bit may differ
    int64_t steps;        // it is made after so many
    std::string words;    // of a failure
  };

  void build();
  void add_candidate(DdpMode mode, std::string name, const Source& source, bool synced);
  void add_comparisons();
  void compare(std::string what, std::string failure, const Candidate& got,
               const std::vector<NamedParameter>& wanted, const double* noise, int64_t steps);
  void skip(std::string what, std::string why);

  void train(int64_t step);
  /// Each returns false when the verdict is reached.
  bool gradients_are_finite(int64_t step);
  bool replicas_are_equal(int64_t step);
  bool models_are_equal(int64_t step);
  bool fail(std::string verdict);
  void pass();

  ProcessGroup& group_;
  const VerifyOptions& options_;
  const bool exact_;  // sums have the same order in every mode, and in one process
  const Source source_, in_f64_;
  VerifyReport& report_;

  std::string where_ = "before the first step";
  std::vector<Candidate> candidates_;  // those of the modes, then that for the whole batch
  // Rank 0's. The reversed ones measure rounding; null where nothing may differ.
  std::unique_ptr<SharesInTurn> in_turn_, in_turn_reversed_;
  std::unique_ptr<WholeBatch> whole_, whole_reversed_;
  double in_turn_noise_ = 0, whole_noise_ = 0;  // the largest so far
  std::vector<Comparison> comparisons_;
};

}  // namespace lockstep

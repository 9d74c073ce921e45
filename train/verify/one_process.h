// What N ranks are compared with: one process that has all their samples.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/train/verify/verify.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

/// In which order it takes the ranks' shares. The results are the same but for rounding, by which
/// rounding is measured.
enum class ShareOrder { kRanks, kReversed };

class OneProcess {
 public:
  OneProcess(const VerifyModel& model, const VerifyBatch& batch, const VerifyOptions& options,
             int ranks, ShareOrder order);
  virtual ~OneProcess() = default;

  virtual void step(int64_t step) = 0;
  const std::vector<NamedParameter>& parameters() const { return replica_.parameters(); }

 protected:
  std::vector<int> ranks_in_order() const;

  const VerifyBatch& batch_;
  const int64_t micro_batches_;
  const int ranks_;
  const ShareOrder order_;
  const std::unique_ptr<ProcessGroup> alone_;
  Replica replica_;
};

/// Takes the shares one after the other, each with the batch statistics and the buffers that its
/// rank has, and adds up a 1/N of each gradient, as the ranks do.
class SharesInTurn final : public OneProcess {
 public:
  SharesInTurn(const VerifyModel& model, const VerifyBatch& batch, const VerifyOptions& options,
               int ranks, ShareOrder order);
  void step(int64_t step) override;

 private:
  std::vector<Tensor> buffers();
  void put(const std::vector<Tensor>& values);

  const bool broadcast_buffers_;
  std::vector<std::vector<Tensor>> buffers_of_;  // of each rank
};

/// Takes all shares as one batch.
class WholeBatch final : public OneProcess {
 public:
  using OneProcess::OneProcess;
  void step(int64_t step) override;
};

}  // namespace lockstep

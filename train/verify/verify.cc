#include "lockstep/train/verify/verify.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/verify/verify_rank.h"

#include <omp.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

VerifyOptions completed(VerifyOptions options) {
  check(options.steps >= 1, "verify: wanted at least 1 step, got ", options.steps);
  check(!options.modes.empty(), "verify: wanted at least one mode");
  for (const DdpMode mode : options.modes) {
    check(mode != DdpMode::kLocal,
          "verify: in local mode nothing is averaged, so there is nothing ",
          "to verify; leave the mode out");
  }
  check(options.ddp.ignore.empty(),
        "verify: DdpOptions::ignore: ", options.ddp.ignore.empty() ? "" : options.ddp.ignore[0],
        " stays each rank's own, so replicas differ");
  if (!options.optimizer) {
    options.optimizer = [](std::vector<NamedParameter> parameters) {
      return std::make_unique<Sgd>(std::move(parameters), SgdOptions{.lr = 0.05, .momentum = 0.9});
    };
  }
  return options;
}

/// One rank's part, over `group` with what lies in between.
void run_rank(ProcessGroup& group, const VerifyModel& model, const VerifyBatch& batch,
              const VerifyOptions& options, VerifyReport& report) {
  // One, and the same in every mode: the number of threads may decide how sums are split up.
  omp_set_num_threads(1);
  if (!options.group.canonical && !options.group.link && options.group.round_robin == 1) {
    return VerifyRank(group, model, batch, options, report).run();
  }
  const auto between = wrap_process_group(group.split(0, group.rank()), options.group);
  VerifyRank(*between, model, batch, options, report).run();
}

/// `error` as the lowest rank tells it, of those that have found the same at unlike places: chance
/// decides which of them throws first.
std::string first_to_say(const std::string& error, const std::vector<std::string>& errors) {
  for (size_t rank = 0; rank < errors.size(); ++rank) {
    const std::string& mine = errors[rank];  // "step 3, naive: what is wrong"
    const size_t what = mine.find(": ");
    if (what == mine.npos || !error.ends_with(mine.substr(what))) continue;
    return str("rank ", rank, ": ", mine);
  }
  return error;
}

}  // namespace

VerifyReport verify(const VerifyModel& model, const VerifyBatch& batch,
                    const VerifyOptions& given) {
  const VerifyOptions options = completed(given);
  check(options.ranks >= 2, "verify: wanted at least 2 ranks, got ", options.ranks);
  for (const Fault& fault : options.faults) {
    check_fault(fault, options.ranks);
    check(fault.kind != FaultKind::kDie, "verify: fault die kills a process, and the ranks are ",
          "threads of this one; use processes (--backend gloo)");
  }
  ThreadGroupOptions threads{.timeout = options.timeout};
  const int64_t most = options.delays.count();
  if (most > 0) {
    threads.delay = [most](int rank, int64_t sequence) {
      const PhiloxRange dice{1, static_cast<uint64_t>(rank) << 40};
      std::this_thread::sleep_for(std::chrono::microseconds(dice.bits(sequence) % most));
    };
  }
  std::vector<VerifyReport> reports(static_cast<size_t>(options.ranks));
  std::vector<std::string> errors(reports.size());
  try {
    spawn(
        options.ranks,
        [&](ProcessGroup& group) {
          const auto rank = static_cast<size_t>(group.rank());
          try {
            run_rank(group, model, batch, options, reports[rank]);
          } catch (const std::exception& error) {
            errors[rank] = error.what();
            throw;
          }
        },
        threads);
  } catch (const Error& error) {
    reports[0].passed = false;
    reports[0].verdict = str("FAIL ", first_to_say(error.what(), errors));
  }
  return std::move(reports[0]);
}

VerifyReport verify_on(ProcessGroup& group, const VerifyModel& model, const VerifyBatch& batch,
                       const VerifyOptions& given) {
  VerifyReport report;
  const int threads = omp_get_max_threads();
  try {
    run_rank(group, model, batch, completed(given), report);
  } catch (const Error& error) {
    report.passed = false;
    report.verdict = str("FAIL ", error.what());
  }
  omp_set_num_threads(threads);
  return report;
}

}  // namespace lockstep

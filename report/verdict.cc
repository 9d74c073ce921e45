#include "lockstep/report/verdict.h"

#include "lockstep/base/str.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

namespace lockstep::report {
namespace {

// Shares of a step below these are not worth a change.
constexpr double kWorth = 0.05;
constexpr double kMiB = 1 << 20;

struct Advice {
  std::string rule, why, what;
};

std::string ms(double value) { return short_number(value) + " ms"; }
std::string mb(double bytes) { return short_number(bytes * 1e-6) + " MB"; }
std::string mib(double bytes) { return short_number(bytes / kMiB); }

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %%", share < 0.0995 ? 1 : 0, 100 * share);
  return text;
}

double communication(const Facts& f) { return f.step.of(StepPart::kExposed) + f.step.hidden; }

/// The straight line through (bytes, ms) of the buckets, by least squares: what a transfer costs
/// even when it is empty.
std::optional<double> fixed_cost(const std::vector<BucketSummary>& buckets) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const BucketSummary& bucket : buckets) {
    if (!(bucket.transfer > 0) || !(bucket.times.bytes >= 0)) continue;
    const double bytes = bucket.times.bytes;
    n += 1;
    x += bytes;
    y += bucket.transfer;
    xx += bytes * bytes;
    xy += bytes * bucket.transfer;
  }
  const double spread = n * xx - x * x;
  // From fewer, or from equally large ones, no line can be told.
  if (n < 4 || spread <= 1e-6 * n * xx) return std::nullopt;
  return std::max(0.0, (y * xx - x * xy) / spread);
}

Advice input_bound(const Facts& f) {
  const double wait = f.step.of(StepPart::kDataWait);
  return {"input-bound",
          str("The run is input-bound: each step waits ", ms(wait), " for its data, ",
              percent(wait / f.step.wall), " of its time."),
          "Try more --workers, a packed data set (lockstep pack --resize) or smaller images."};
}

Advice waits_for_ranks(const Facts& f) {
  const double wait = f.step.of(StepPart::kPeerWait);
  // Those who are on time wait for it.
  if (f.late_rank >= 0 && f.late > 0.25 * wait) {
    return {
        "slow-rank",
        str("Rank ", f.late_rank, " is late: it launches its buckets ", ms(f.late),
            " after the first rank, and the ranks wait ", ms(wait), " of each step for others."),
        str("Look at rank ", f.late_rank,
            ": other programs on its cores, fewer --threads, slower data or a slower processor.")};
  }
  if (f.start_delay > 0.25 * wait / std::max<double>(1, std::ssize(f.buckets))) {
    return {"late-start",
            str("The ranks wait ", ms(wait),
                " of each step for each other, though none is late "
                "with its gradients: a bucket's transfer begins ",
                ms(f.start_delay), " after all have launched it."),
            "Look for what holds communication threads up: too few cores for all ranks' threads, "
            "or a rank whose network is slow to answer; fewer, larger buckets (--bucket-cap-mb) "
            "wait less often."};
  }
  return {"uneven-ranks",
          str("The ranks wait ", ms(wait), " of each step for each other (",
              percent(wait / f.step.wall), "), now for one, now for another."),
          "Try fewer --threads for each rank, so that all have cores of their own, or a larger "
          "--batch-size, over which differences even out."};
}

Advice less_traffic(const Facts& f) {
  const double comm = communication(f), backward = f.step.of(StepPart::kBackward);
  const auto times =
      static_cast<int64_t>(std::ceil(std::clamp(comm / std::max(backward, 1e-9), 2.0, 16.0)));
  const std::string accumulate =
      str("--grad-accum-steps ", f.grad_accum_steps * times, " (gradients travel once in ",
          f.grad_accum_steps * times, " batches)");
  return {"bandwidth-bound",
          str("The run is bandwidth-bound: gradients of ", mb(f.step.bytes), " travel for ",
              ms(comm), ", and backward, beside which they could, takes ", ms(backward), "."),
          f.comm_hook.empty()
              ? str("Try --comm-hook bf16, which halves what travels, or ", accumulate, ".")
              : str("Try ", accumulate, ", or a faster link.")};
}

/// What holds back communication that is not hidden.
Advice exposed(const Facts& f) {
  const double exposed = f.exposed, comm = communication(f),
               backward = f.step.of(StepPart::kBackward);
  const size_t n = f.buckets.size();
  if (f.mode == "naive" || f.mode == "bucketed") {
    return {"not-overlapped",
            str("Gradients travel only when backward is over (--ddp-mode ", f.mode, "): all ",
                ms(comm), " of communication are waited for."),
            str("Try --ddp-mode overlapped, which can hide up to ", ms(std::min(comm, backward)),
                " of them.")};
  }
  double bytes = 0, transfers = 0;
  for (const BucketSummary& bucket : f.buckets) {
    if (bucket.times.bytes >= 0) bytes += bucket.times.bytes;
    if (bucket.transfer >= 0) transfers += bucket.transfer;
  }
  const std::optional<double> fixed = fixed_cost(f.buckets);
  if (fixed && *fixed * static_cast<double>(n) > 0.5 * transfers) {
    return {"latency-bound",
            str("The run is latency-bound: each of ", n, " buckets costs about ", ms(*fixed),
                " however small it is, ", ms(*fixed * static_cast<double>(n)), " of ",
                ms(transfers), " in all."),
            str("Try fewer, larger buckets: --bucket-cap-mb ",
                mib(4 * std::max(bytes / static_cast<double>(n), kMiB / 4)), ".")};
  }
  if (comm > 0.9 * backward) return less_traffic(f);
  if (n == 1) {
    return {"one-bucket",
            str("All gradients travel in one bucket of ", mb(bytes),
                ", which is complete only when backward is over; ", ms(exposed), " of its ",
                ms(comm), " are waited for."),
            str("Try smaller buckets: --bucket-cap-mb ", mib(bytes / 4), ".")};
  }
  if (n >= 2) {
    const BucketSummary& last = f.buckets.back();
    if (last.transfer > 0.4 * exposed) {
      return {
          "tail",
          str("Backward hides the buckets but for the last one: its ", mb(last.times.bytes),
              " are complete only ", ms(last.times.ready), " into backward and travel for ",
              ms(last.transfer), ", when there is nothing left to hide them."),
          str("Try a smaller last bucket: --last-bucket-cap-mb ", mib(last.times.bytes / 2), ".")};
    }
    const BucketSummary& first = f.buckets.front();
    if (first.times.launch > 0.5 * backward) {
      return {
          "late-first-bucket",
          str("Communication begins late: the first bucket, ", mb(first.times.bytes),
              ", is launched ", ms(first.times.launch), " into a backward of ", ms(backward), "."),
          str("Try a smaller first bucket: --first-bucket-cap-mb ", mib(first.times.bytes / 4),
              ".")};
    }
  }
  return less_traffic(f);
}

Advice nothing_lost(const Facts& f) {
  const double optimizer = f.step.of(StepPart::kOptimizer);
  if (optimizer > 0.25 * f.step.wall) {
    return {"optimizer",
            str("The optimizer takes ", percent(optimizer / f.step.wall),
                " of each step, as many bytes of parameters pass through it however small the "
                "batch."),
            str("Try a larger --batch-size, or --grad-accum-steps ", 2 * f.grad_accum_steps,
                ": one optimizer step for more images.")};
  }
  if (f.world_size == 1) {
    return {"compute-bound",
            "The run is compute-bound: one process computes nearly all of the time.",
            "Try more --threads, or more processes (--nproc) on more cores or machines."};
  }
  const double comm = communication(f);
  std::string why = str("The run is compute-bound: backward hides ", ms(f.step.hidden), " of ",
                        ms(comm), " of communication, so faster communication would win ",
                        percent(f.step.of(StepPart::kExposed) / f.step.wall), " at most.");
  if (f.mode == "local") why = "The run is compute-bound, and its ranks do not communicate.";
  return {"compute-bound", why, "Try more --threads or more ranks; the link has room for them."};
}

std::string where(const Facts& f) {
  std::vector<std::pair<double, std::string>> parts;
  for (size_t i = 0; i < kStepParts; ++i) {
    parts.emplace_back(f.step.parts[i], name_of(static_cast<StepPart>(i)));
  }
  parts.emplace_back(f.step.other, "what no part covers");
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = str("A typical step takes ", ms(f.step.wall), ":");
  const char* separator = " ";
  for (const auto& [value, name] : parts) {
    if (!(value > 0.01 * f.step.wall)) continue;
    text += str(separator, ms(value), " (", percent(value / f.step.wall), ") ", name);
    separator = ", ";
  }
  return text + ".";
}

}  // namespace

std::string short_number(double value) {
  if (!std::isfinite(value)) return "?";
  char text[400];
  const double size = std::abs(value);
  std::snprintf(text, sizeof text, "%.*f", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, value);
  return text;
}

Verdict verdict_of(const Facts& f) {
  if (!(f.step.wall > 0)) return {"No step was recorded.", "", "", "nothing"};
  const std::pair<double, Advice (*)(const Facts&)> losses[] = {
      {f.step.of(StepPart::kDataWait), input_bound},
      {std::max(f.step.of(StepPart::kPeerWait), f.late_rank >= 0 ? f.late : 0), waits_for_ranks},
      {f.exposed, exposed}};
  const auto worst =
      std::max_element(std::begin(losses), std::end(losses),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
  const bool worth = worst->first > kWorth * f.step.wall;
  Advice advice = worth ? worst->second(f) : nothing_lost(f);
  return {where(f), std::move(advice.why), std::move(advice.what), std::move(advice.rule)};
}

}  // namespace lockstep::report

#include "lockstep/report/page.h"

#include "lockstep/base/str.h"
#include "lockstep/report/bars.h"
#include "lockstep/report/curves.h"
#include "lockstep/report/html.h"
#include "lockstep/report/page_files.h"
#include "lockstep/report/svg_chart.h"
#include "lockstep/report/tables.h"
#include "lockstep/report/timeline_data.h"

#include <algorithm>
#include <cstdlib>

namespace lockstep::report {
namespace {

/// "resnet18 on digits; 2 ranks x 1 thread; overlapped; ..."
std::string subtitle(const RunData& run, const RunSteps& steps) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " · ") + part; };
  const std::string model = run.setting("model"), data = run.setting("dataset");
  if (!model.empty()) add(data.empty() ? model : str(model, " on ", data));
  add(str(steps.world_size, steps.world_size == 1 ? " rank" : " ranks"));
  for (const auto& [name, words] : {std::pair{"batch-size", "batch size "},
                                    {"ddp-mode", "gradients "},
                                    {"comm-hook", "hook "},
                                    {"emulated-link", "emulated link "}}) {
    const std::string value = run.setting(name);
    if (!value.empty()) add(words + value);
  }
  const std::string accumulated = run.setting("grad-accum-steps");
  if (!accumulated.empty() && accumulated != "1") add(str("accumulated over ", accumulated));
  const RankLog& log = steps.ranks.front();
  if (!log.steps.empty()) add(str(log.steps.back().step + 1, " steps"));
  return text;
}

std::string list_of(const std::vector<int>& ranks) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kShown); ++i) {
    text += str(i == 0 ? "" : ", ", ranks[i]);
  }
  return ranks.size() > kShown ? text + ", ..." : text;
}

std::string percent(double share) { return short_number(100 * share) + " %"; }

/// Whether the parts of each step are its time.
std::string accounting(std::span<const RankSummary> ranks) {
  double worst = 0;
  size_t missed = 0, steps = 0;
  for (const RankSummary& rank : ranks) {
    worst = std::max(worst, rank.breakdown.missed);
    missed += rank.breakdown.missed_steps;
    steps += rank.breakdown.steps;
  }
  const std::string sum =
      "Forward, backward, exposed communication, waiting for other ranks, optimizer and data wait ";
  if (worst <= kMostUnaccounted) {
    return str(sum, "add up to a typical step's wall time within ", percent(worst), "; they miss ",
               missed, " of ", steps, " steps by more than 1 %.");
  }
  return str("Beware: ", sum, "miss a typical step's wall time by ", percent(worst),
             ". Something in the step is not measured, or measured twice.");
}

std::string list(const std::vector<std::string>& sentences) {
  std::string html = "<ul>\n";
  for (const std::string& sentence : sentences) html += str("<li>", escape(sentence), "</li>\n");
  return html + "</ul>\n";
}

}  // namespace

Facts facts_of(const RunData& run, const RunSteps& steps, std::span<const RankSummary> ranks) {
  Facts facts{.step = mean_over(ranks, &Breakdown::typical),
              .buckets = buckets_of(steps),
              .world_size = steps.world_size,
              .mode = run.setting("ddp-mode"),
              .comm_hook = run.setting("comm-hook"),
              .start_delay = start_delay(steps)};
  facts.grad_accum_steps =
      std::max<int64_t>(1, std::atoll(run.setting("grad-accum-steps").c_str()));
  facts.exposed = facts.step.of(StepPart::kExposed);
  for (const RankSummary& rank : ranks) {
    facts.exposed = std::min(facts.exposed, rank.breakdown.typical.of(StepPart::kExposed));
    if (!(rank.late > 0) || rank.late <= facts.late) continue;
    facts.late = rank.late;
    facts.late_rank = rank.rank;
  }
  return facts;
}

std::vector<std::string> notes_of(const RunData& run, const RunSteps& steps,
                                  std::span<const RankSummary> ranks) {
  std::vector<std::string> notes = {accounting(ranks)};
  if (!steps.missing.empty()) {
    notes.push_back(str("The step logs of ", steps.missing.size(), " of ", steps.world_size,
                        " ranks are not in this folder (", list_of(steps.missing),
                        "): copy their steps.rankN.jsonl from the hosts that they ran on, and make "
                        "the report again."));
  }
  const RankLog& log = steps.ranks.front();
  if (!log.ended) {
    notes.push_back(str("The run has not ended as it was meant to, or is still going; shown are ",
                        log.steps.empty() ? 0 : log.steps.back().step + 1, " steps."));
  }
  if (log.starts > 1) notes.push_back(str("The run was resumed ", log.starts - 1, " times."));
  size_t unreadable = run.unreadable;
  for (const RankLog& rank : steps.ranks) unreadable += rank.unreadable;
  if (unreadable > 0) notes.push_back(str(unreadable, " damaged lines were passed over."));
  if (!log.steps.empty() && std::ssize(log.steps) < log.steps.back().step) {
    notes.push_back(str("Of a long run some steps are recorded: ", log.steps.size(), " of ",
                        log.steps.back().step + 1, "."));
  }
  notes.push_back(
      "A typical step is the mean of the middle half of all steps by wall time, without the first; "
      "its parts add up. Medians and percentiles are of each part by itself.");
  notes.push_back(
      "Exposed is communication during which the rank did not compute; hidden is the rest. "
      "Bandwidth "
      "is what each rank's link carries in a ring all-reduce: bytes x 2 (N-1) / N over the time of "
      "the transfer.");
  if (steps.world_size > 1) {
    notes.push_back(
        "Ranks' clocks are compared when training begins and ends; the timeline and the trace are "
        "on "
        "rank 0's.");
  }
  return notes;
}

std::string report_page(const RunData& run, const RunSteps& steps,
                        const std::vector<PlannedBucket>& plan) {
  const std::vector<RankSummary> ranks = ranks_of(steps);
  const Facts facts = facts_of(run, steps, ranks);
  const Verdict verdict = verdict_of(facts);
  const int critical = critical_bucket(facts.buckets, facts.step.wall);
  std::vector<std::string> notes = notes_of(run, steps, ranks);
  const TimelineData timeline = timeline_data(steps, plan);
  if (!timeline.note.empty()) notes.push_back(timeline.note);
  const std::string sentence =
      facts.buckets.empty() ? "No bucket travelled in this run."
      : critical < 0        ? "No bucket holds backward up."
                     : str("Bucket ", critical, " is the critical one: the end of backward waits ",
                           short_number(facts.buckets[static_cast<size_t>(critical)].times.wait),
                           " ms for it.");
  return fill(
      kPageHtml,
      {{"title", escape("Lockstep report: " + run.name)},
       {"name", escape(run.name)},
       {"subtitle", escape(subtitle(run, steps))},
       {"verdict", paragraph(verdict.where) + paragraph(verdict.why) + paragraph(verdict.what)},
       {"bars", breakdown_bars(ranks)},
       {"parts", parts_table(ranks)},
       {"buckets", paragraph(sentence) +
                       (facts.buckets.empty() ? "" : bucket_table(facts.buckets, plan, critical))},
       {"ranks", rank_table(ranks)},
       {"curves", run_curves(run, steps)},
       {"notes", list(notes)},
       {"css", chart_style() + kPageCss},
       {"data", timeline.json},
       {"js", kPageJs}});
}

}  // namespace lockstep::report

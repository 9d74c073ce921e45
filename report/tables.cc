#include "lockstep/report/tables.h"

#include "lockstep/base/str.h"
#include "lockstep/report/html.h"
#include "lockstep/report/svg_chart.h"
#include "lockstep/report/verdict.h"

#include <algorithm>
#include <cmath>

namespace lockstep::report {
namespace {

constexpr size_t kMostNames = 40, kMostLetters = 200;  // of parameters, in a table's cell

std::string cell(double value) { return std::isnan(value) ? "–" : short_number(value); }

std::string names(const std::vector<std::string>& params) {
  if (params.empty()) return "–";
  std::string list;
  for (size_t i = 0; i < std::min(params.size(), kMostNames); ++i) {
    list += (i == 0 ? "" : ", ") + escape(params[i].substr(0, kMostLetters));
  }
  if (params.size() > kMostNames) list += str(" and ", params.size() - kMostNames, " more");
  if (params.size() == 1) return list;
  return str("<details><summary>", escape(params.front().substr(0, kMostLetters)), " and ",
             params.size() - 1, " more</summary>", list, "</details>");
}

}  // namespace

std::string bucket_table(std::span<const BucketSummary> buckets,
                         const std::vector<PlannedBucket>& plan, int critical) {
  // A plan of another number of buckets is not the one that these were of.
  const bool planned = plan.size() == buckets.size();
  bool compressed = false;
  for (size_t b = 0; b < buckets.size(); ++b) {
    const double sent = buckets[b].times.bytes;
    compressed = compressed || (planned && !std::isnan(sent) && sent != plan[b].bytes);
  }
  std::vector<std::string> header = {"bucket", "#MB"};
  if (compressed) header.push_back("#MB sent");
  for (const char* name :
       {"#ready", "#launch", "#start", "#finish", "#transfer", "#wait", "#MB/s", "gradients of"}) {
    header.push_back(name);
  }
  std::vector<std::vector<std::string>> rows;
  for (size_t b = 0; b < buckets.size(); ++b) {
    const BucketRecord& times = buckets[b].times;
    const bool marked = static_cast<int>(b) == critical;
    rows.push_back({str(b, marked ? " <strong class=\"critical\">critical</strong>" : "")});
    auto& row = rows.back();
    row.push_back(cell((planned ? plan[b].bytes : times.bytes) * 1e-6));
    if (compressed) row.push_back(cell(times.bytes * 1e-6));
    for (const double value : {times.ready, times.launch, times.start, times.finish,
                               buckets[b].transfer, times.wait, buckets[b].bandwidth * 1e-6}) {
      row.push_back(cell(value));
    }
    row.push_back(planned ? names(plan[b].params) : "–");
  }
  return table("In the order of their launch; times are medians, in ms after backward began",
               header, rows);
}

std::string rank_table(std::span<const RankSummary> ranks) {
  constexpr size_t kMostRanks = 256;
  std::vector<std::vector<std::string>> rows;
  for (const RankSummary& rank : ranks.first(std::min(ranks.size(), kMostRanks))) {
    const StepRecord& step = rank.breakdown.typical;
    rows.push_back({str(rank.rank), escape(rank.host), cell(step.wall),
                    cell(step.of(StepPart::kForward)), cell(step.of(StepPart::kBackward)),
                    cell(step.of(StepPart::kExposed)), cell(step.of(StepPart::kPeerWait)),
                    cell(rank.late),
                    str(cell(static_cast<double>(rank.clock.offset_ns) * 1e-3), " ± ",
                        cell(static_cast<double>(rank.clock.error_ns) * 1e-3))});
  }
  const std::string more =
      ranks.size() > kMostRanks
          ? paragraph(str("The first ", kMostRanks, " of ", ranks.size(), " ranks."), "note")
          : "";
  return table("Ranks: ms of a typical step",
               {"rank", "host", "#step", "#forward", "#backward", "#exposed", "#waits for ranks",
                "#launches late by", "#clock ahead, µs"},
               rows) +
         more;
}

}  // namespace lockstep::report

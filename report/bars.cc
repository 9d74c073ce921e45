#include "lockstep/report/bars.h"

#include "lockstep/base/str.h"
#include "lockstep/report/axis.h"
#include "lockstep/report/html.h"
#include "lockstep/report/svg_chart.h"
#include "lockstep/report/verdict.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace lockstep::report {
namespace {

constexpr double kWidth = 960, kLeft = 74, kRight = 950, kRow = 34, kBar = 24;
constexpr double kLetter = 7.2;  // of a label within a bar, generously

// In the order in which they happen.
constexpr StepPart kOrder[] = {StepPart::kDataWait, StepPart::kForward,  StepPart::kBackward,
                               StepPart::kExposed,  StepPart::kPeerWait, StepPart::kOptimizer,
                               StepPart::kGraph};

std::string px(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string segment(size_t part, const std::string& name, double value, double x, double y,
                    double width) {
  const std::string at = str("x=\"", px(x), "\" y=\"", px(y), "\" width=\"", px(width),
                             "\" height=\"", px(kBar), "\"");
  std::string svg = str("<g><title>", escape(name), ": ", short_number(value), " ms</title><rect ",
                        at, " class=\"seg ", part_class(part), "\"/>");
  svg += str("<rect ", at, " class=\"hatch ", part_class(part), "\"/>");
  const std::string number = short_number(value);
  const std::string both = str(name, " ", number);
  const auto fits = [&](const std::string& text) {
    return kLetter * static_cast<double>(text.size()) + 8 < width;
  };
  if (fits(both) || fits(number)) {
    svg += str("<text class=\"on ", part_class(part), "\" x=\"", px(x + width / 2), "\" y=\"",
               px(y + kBar / 2 + 4), "\" text-anchor=\"middle\">",
               escape(fits(both) ? both : number), "</text>");
  }
  return svg + "</g>\n";
}

std::string axis(const Axis& axis, double bottom) {
  std::string svg;
  for (size_t i = 0; i < axis.ticks.size(); ++i) {
    const double x = kLeft + (kRight - kLeft) * axis.position(axis.ticks[i]);
    svg += str("<line class=\"grid\" x1=\"", px(x), "\" x2=\"", px(x), "\" y1=\"4\" y2=\"",
               px(bottom), "\"/><text class=\"note\" x=\"", px(x), "\" y=\"", px(bottom + 16),
               "\" text-anchor=\"", axis.position(axis.ticks[i]) > 0.97 ? "end" : "middle", "\">",
               axis.names[i], "</text>\n");
  }
  return svg;
}

/// Runs without captured steps are not told of such a part.
bool shows(StepPart part, std::span<const RankSummary> ranks) {
  return part != StepPart::kGraph ||
         std::any_of(ranks.begin(), ranks.end(), [](const RankSummary& rank) {
           return rank.breakdown.typical.of(StepPart::kGraph) > 0;
         });
}

std::string legend(std::span<const RankSummary> ranks) {
  std::string html = "<ul class=\"legend\">";
  for (const StepPart part : kOrder) {
    if (!shows(part, ranks)) continue;
    const std::string type = part_class(static_cast<size_t>(part));
    html +=
        str("<li><svg width=\"20\" height=\"14\" aria-hidden=\"true\"><rect width=\"20\" "
            "height=\"14\" class=\"seg ",
            type,
            "\"/><rect width=\"20\" height=\"14\" "
            "class=\"hatch ",
            type, "\"/></svg>", name_of(part), "</li>");
  }
  return html + "</ul>\n";
}

}  // namespace

std::string part_class(size_t part) { return str("p", part); }

std::string breakdown_bars(std::span<const RankSummary> ranks, size_t most) {
  std::vector<const RankSummary*> shown;
  for (const RankSummary& rank : ranks) shown.push_back(&rank);
  std::string note;
  if (shown.size() > most) {
    std::stable_sort(shown.begin(), shown.end(), [](const auto* a, const auto* b) {
      return a->breakdown.typical.wall > b->breakdown.typical.wall;
    });
    shown.resize(most);
    note = paragraph(str("Shown are the ", most, " slowest of ", ranks.size(), " ranks."), "note");
  }
  double longest = 0;
  for (const RankSummary* rank : shown) {
    longest = std::max(longest, rank->breakdown.typical.wall);
  }
  const Axis scale = axis_from_zero(longest, 8);
  const double bottom = 8 + kRow * static_cast<double>(shown.size());
  std::string svg =
      str("<svg class=\"bars\" viewBox=\"0 0 ", kWidth, " ", bottom + 38,
          "\" role=\"img\" aria-label=\"The parts of a typical step of each rank\">\n",
          axis(scale, bottom));
  double y = 8;
  for (const RankSummary* rank : shown) {
    svg += str("<text x=\"", kLeft - 8, "\" y=\"", px(y + kBar / 2 + 4),
               "\" text-anchor=\"end\">rank ", rank->rank, "</text>\n");
    double x = kLeft;
    const StepRecord& step = rank->breakdown.typical;
    const auto add = [&](size_t part, const char* name, double value) {
      const double width = (kRight - kLeft) * scale.position(value);
      if (width >= 0.3) svg += segment(part, name, value, x, y, width);
      x += width;
    };
    for (const StepPart part : kOrder) add(static_cast<size_t>(part), name_of(part), step.of(part));
    add(kStepParts, "other", step.other);
    y += kRow;
  }
  svg += str("<text class=\"note\" x=\"", (kLeft + kRight) / 2, "\" y=\"", px(bottom + 33),
             "\" text-anchor=\"middle\">milliseconds of a typical step</text>\n</svg>\n");
  return svg + legend(ranks) + note;
}

StepRecord mean_over(std::span<const RankSummary> ranks, StepRecord Breakdown::*member) {
  StepRecord sum;
  const auto n = static_cast<double>(std::max<size_t>(ranks.size(), 1));
  for (const RankSummary& rank : ranks) {
    const StepRecord& step = rank.breakdown.*member;
    for (size_t i = 0; i < kStepParts; ++i) sum.parts[i] += step.parts[i] / n;
    sum.wall += step.wall / n;
    sum.other += step.other / n;
    sum.hidden += step.hidden / n;
    sum.bytes += step.bytes / n;
  }
  return sum;
}

std::string parts_table(std::span<const RankSummary> ranks) {
  const StepRecord typical = mean_over(ranks, &Breakdown::typical),
                   median = mean_over(ranks, &Breakdown::median),
                   p90 = mean_over(ranks, &Breakdown::p90);
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, const auto& get) {
    char share[32];
    std::snprintf(share, sizeof share, "%.1f %%",
                  typical.wall > 0 ? 100 * get(typical) / typical.wall : 0.0);
    rows.push_back({escape(name), short_number(get(typical)), share, short_number(get(median)),
                    short_number(get(p90))});
  };
  for (const StepPart part : kOrder) {
    if (!shows(part, ranks)) continue;
    add(name_of(part), [&](const StepRecord& step) { return step.of(part); });
  }
  add("other", [](const StepRecord& step) { return step.other; });
  add("whole step", [](const StepRecord& step) { return step.wall; });
  add("besides: hidden communication", [](const StepRecord& step) { return step.hidden; });
  return table("Parts of a step, ms, means over the ranks",
               {"part", "#typical step", "#share", "#median", "#90th percentile"}, rows);
}

}  // namespace lockstep::report

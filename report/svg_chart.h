// Line charts as pieces of SVG. Colours come from a style sheet that knows light and dark; lines
// also differ in dashes and markers, so that they can be told apart without colours.
#pragma once

#include "lockstep/report/axis.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::report {

/// So many lines look different from each other.
inline constexpr size_t kLineStyles = 24;

using Points = std::vector<std::pair<double, double>>;  // finite, x never falling

struct Line {
  Points points;
  size_t style = 0;  // below kLineStyles
};

struct Chart {
  std::string title = {}, x_title = {};
  Axis x = {}, y = {};
  std::vector<Line> lines = {};
};

/// Where a chart goes, in pixels of the picture; titles and ticks lie inside.
struct Box {
  double left = 0, top = 0, width = 0, height = 0;
};

/// The chart as an SVG group. One without points says so.
std::string draw_chart(const Chart& chart, const Box& box);

/// A sample of each line beside its name, in as many columns as fit. `height_of` is what it takes.
std::string draw_legend(const std::vector<std::pair<size_t, std::string>>& names, const Box& box);
double legend_height(const std::vector<std::pair<size_t, std::string>>& names, double width);

/// `text` for SVG and HTML: markup escaped, control characters and what is not UTF-8 replaced.
std::string escape(const std::string& text);

/// A text whose left end is at (x, y); `type` is a class of the style sheet: "title", "note".
std::string draw_text(double x, double y, const std::string& text, const std::string& type);

/// The style sheet's text, for a <style> element: classes within ".chart".
std::string chart_style();

/// A whole file: `body` on a background, with the style sheet in it.
std::string svg_document(double width, double height, const std::string& body);

/// At most `most` points, each the mean of as many neighbours.
Points thinned(const Points& points, size_t most);

}  // namespace lockstep::report

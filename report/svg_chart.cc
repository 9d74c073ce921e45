#include "lockstep/report/svg_chart.h"

#include "lockstep/base/str.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lockstep::report {
namespace {

constexpr double kFontSize = 12;
constexpr double kLetter = 6.8;  // the width of one, generously
constexpr double kLineHeight = 18;
constexpr double kSample = 34;  // of a line in the legend
constexpr size_t kMarkers = 9;  // on a line, about

/// Coordinates to a tenth of a pixel.
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

/// As wide as anything in a font of `kFontSize`; bytes of a character beyond ASCII count once.
double width_of(const std::string& text) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return kLetter * static_cast<double>(std::count_if(text.begin(), text.end(), begins));
}

std::string marker(double x, double y, size_t style) {
  const auto corners = [&](std::initializer_list<std::pair<double, double>> offsets) {
    std::string points;
    for (const auto& [dx, dy] : offsets) points += number(x + dx) + "," + number(y + dy) + " ";
    return str("<polygon class=\"m c", style % 6, "\" points=\"", points, "\"/>\n");
  };
  switch (style % 5) {
    case 0:
      return str("<circle class=\"m c", style % 6, "\" cx=\"", number(x), "\" cy=\"", number(y),
                 "\" r=\"3.5\"/>\n");
    case 1:
      return corners({{-3.2, -3.2}, {3.2, -3.2}, {3.2, 3.2}, {-3.2, 3.2}});
    case 2:
      return corners({{0, -4.4}, {4.2, 3.2}, {-4.2, 3.2}});
    case 3:
      return corners({{0, -4.8}, {4.8, 0}, {0, 4.8}, {-4.8, 0}});
    default:
      return corners({{0, 4.4}, {4.2, -3.2}, {-4.2, -3.2}});
  }
}

std::string line_class(size_t style) {
  // 6 colours and 4 kinds of dashes, so that the 24 styles are all different.
  return str("\"l c", style % 6, " d", (style + style / 12) % 4, "\"");
}

std::string label(double x, double y, const std::string& text, const char* anchor,
                  const char* type) {
  return str("<text class=\"", type, "\" x=\"", number(x), "\" y=\"", number(y),
             "\" text-anchor=\"", anchor, "\">", escape(text), "</text>\n");
}

std::string grid_line(double x1, double y1, double x2, double y2, const char* type) {
  return str("<line class=\"", type, "\" x1=\"", number(x1), "\" y1=\"", number(y1), "\" x2=\"",
             number(x2), "\" y2=\"", number(y2), "\"/>\n");
}

std::string draw_line(const Chart& chart, const Line& line, const Box& plot) {
  std::string path;
  Points at;
  for (const auto& [x, y] : line.points) {
    at.emplace_back(plot.left + plot.width * chart.x.position(x),
                    plot.top + plot.height * (1 - chart.y.position(y)));
    path += number(at.back().first) + "," + number(at.back().second) + " ";
  }
  std::string svg = str("<polyline class=", line_class(line.style), " points=\"", path, "\"/>\n");
  // On unlike places of unlike lines, so that those of equal lines do not hide each other.
  const size_t every = (at.size() + kMarkers - 1) / kMarkers;
  for (size_t i = every < 2 ? 0 : line.style * 2 % every; i < at.size();
       i += std::max<size_t>(every, 1)) {
    svg += marker(at[i].first, at[i].second, line.style);
  }
  return svg;
}

struct Columns {
  size_t count = 1;
  double width = 0;
};

Columns columns_of(const std::vector<std::pair<size_t, std::string>>& names, double width) {
  double widest = 0;
  for (const auto& [style, name] : names) widest = std::max(widest, width_of(name));
  const double each = kSample + 8 + widest + 20;
  const auto most = static_cast<size_t>(std::max(1.0, std::floor(width / each)));
  return {std::clamp<size_t>(most, 1, std::max<size_t>(names.size(), 1)), each};
}

}  // namespace

std::string escape(const std::string& text) {
  std::string safe;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    size_t length = byte < 0x80                   ? 1
                    : byte >= 0xc2 && byte < 0xe0 ? 2
                    : (byte & 0xf0) == 0xe0       ? 3
                    : byte >= 0xf0 && byte < 0xf5 ? 4
                                                  : 0;
    for (size_t k = 1; k < length; ++k) {
      if (i + k >= text.size() || (static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80)
        length = 0;
    }
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      safe += '?';
      length = 1;
    } else if (byte == '&') {
      safe += "&amp;";
    } else if (byte == '<') {
      safe += "&lt;";
    } else if (byte == '>') {
      safe += "&gt;";
    } else if (byte == '"') {
      safe += "&quot;";
    } else {
      safe += text.substr(i, length);
    }
    i += length;
  }
  return safe;
}

std::string draw_text(double x, double y, const std::string& text, const std::string& type) {
  return label(x, y, text, "start", type.c_str());
}

std::string draw_chart(const Chart& chart, const Box& box) {
  double ticks_width = 0;
  for (const std::string& name : chart.y.names) ticks_width = std::max(ticks_width, width_of(name));
  const Box plot{box.left + ticks_width + 10, box.top + 26, box.width - ticks_width - 24,
                 box.height - 26 - 40};
  const double right = plot.left + plot.width, bottom = plot.top + plot.height;
  std::string svg = "<g>\n" + label(plot.left, box.top + 14, chart.title, "start", "title");
  for (size_t i = 0; i < chart.y.ticks.size(); ++i) {
    const double y = bottom - plot.height * chart.y.position(chart.y.ticks[i]);
    svg += grid_line(plot.left, y, right, y, "grid");
    svg += label(plot.left - 6, y + 4, chart.y.names[i], "end", "note");
  }
  for (size_t i = 0; i < chart.x.ticks.size(); ++i) {
    const double x = plot.left + plot.width * chart.x.position(chart.x.ticks[i]);
    svg += grid_line(x, bottom, x, bottom + 4, "axis");
    svg += label(x, bottom + 18, chart.x.names[i], "middle", "note");
  }
  svg += grid_line(plot.left, bottom, right, bottom, "axis");
  svg += label(plot.left + plot.width / 2, bottom + 35, chart.x_title, "middle", "note");
  bool any = false;
  for (const Line& line : chart.lines) {
    if (line.points.empty()) continue;
    any = true;
    svg += draw_line(chart, line, plot);
  }
  if (!any) {
    svg += label(plot.left + plot.width / 2, plot.top + plot.height / 2, "no values", "middle",
                 "note");
  }
  return svg + "</g>\n";
}

double legend_height(const std::vector<std::pair<size_t, std::string>>& names, double width) {
  const size_t count = columns_of(names, width).count;
  return kLineHeight * static_cast<double>((names.size() + count - 1) / count);
}

std::string draw_legend(const std::vector<std::pair<size_t, std::string>>& names, const Box& box) {
  const Columns columns = columns_of(names, box.width);
  const size_t rows = (names.size() + columns.count - 1) / columns.count;
  std::string svg = "<g>\n";
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& [style, name] = names[i];
    const double x = box.left + columns.width * static_cast<double>(i / rows);
    const double y = box.top + kLineHeight * (static_cast<double>(i % rows) + 0.5);
    svg += str("<polyline class=", line_class(style), " points=\"", number(x), ",", number(y), " ",
               number(x + kSample), ",", number(y), "\"/>\n");
    svg += marker(x + kSample / 2, y, style);
    svg += label(x + kSample + 8, y + 4, name, "start", "name");
  }
  return svg + "</g>\n";
}

std::string chart_style() {
  // Written out rather than as variables, which programs other than browsers may not know.
  constexpr std::array<const char*, 6> kLight = {"#1f5fa8", "#c8402f", "#2a8c5a",
                                                 "#8a4fbf", "#a87b00", "#444444"};
  constexpr std::array<const char*, 6> kDark = {"#6db3f2", "#ff8f7e", "#6fd39b",
                                                "#c9a6f7", "#e8c35a", "#d0d0d0"};
  const auto sheet = [](const std::array<const char*, 6>& colours, const char* paper,
                        const char* ink, const char* faint, const char* grid) {
    std::string css = str(".chart .paper{fill:", paper, "}.chart text{fill:", ink,
                          "}.chart .note{fill:", faint, "}.chart .grid{stroke:", grid,
                          "}.chart .axis{stroke:", faint, "}.chart .m{stroke:", paper, "}\n");
    for (size_t i = 0; i < colours.size(); ++i) {
      css += str(".chart .l.c", i, "{stroke:", colours[i], "}.chart .m.c", i, "{fill:", colours[i],
                 "}\n");
    }
    return css;
  };
  return str(".chart text{font:", kFontSize, "px system-ui,sans-serif}\n",
             ".chart .head{font-size:16px;font-weight:600}.chart .title{font-weight:600}\n",
             ".chart .grid,.chart .axis{stroke-width:1}.chart .m{stroke-width:1}\n",
             ".chart .l{fill:none;stroke-width:1.8;stroke-linejoin:round}\n",
             ".chart .d1{stroke-dasharray:7 4}.chart .d2{stroke-dasharray:2 3}",
             ".chart .d3{stroke-dasharray:11 3 2 3}\n",
             sheet(kLight, "#ffffff", "#1a1a1a", "#5a5a5a", "#e2e2e2"),
             "@media (prefers-color-scheme:dark){\n",
             sheet(kDark, "#16181c", "#f0f0f0", "#a8adb5", "#33373e"), "}\n");
}

std::string svg_document(double width, double height, const std::string& body) {
  const std::string size = str("width=\"", width, "\" height=\"", height, "\"");
  return str("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" ", size, " viewBox=\"0 0 ",
             width, " ", height, "\">\n<style>\n", chart_style(), "</style>\n",
             "<rect class=\"paper\" ", size, "/>\n", body, "</svg>\n");
}

Points thinned(const Points& points, size_t most) {
  if (points.size() <= most) return points;
  Points fewer;
  const size_t each = (points.size() + most - 1) / most;
  for (size_t begin = 0; begin < points.size(); begin += each) {
    const size_t end = std::min(begin + each, points.size());
    double x = 0, y = 0;
    for (size_t i = begin; i < end; ++i) {
      x += points[i].first;
      y += points[i].second;
    }
    fewer.emplace_back(x / static_cast<double>(end - begin), y / static_cast<double>(end - begin));
  }
  return fewer;
}

}  // namespace lockstep::report

#include "lockstep/base/str.h"
#include "lockstep/report/compare.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::report {
namespace {

/// A field of CSV: quoted when it has to be.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string cell(double value) {
  if (std::isnan(value)) return "";
  char text[40];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

/// "-" for what is not known.
template <class... Values>
std::string shown(const char* format, double value, Values... more) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, format, value, more...);
  return text;
}

std::string time_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e8) return "-";
  if (seconds < 60) return shown("%.1f s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  char text[32];
  std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return text;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return std::nan("");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> column(const std::vector<RunLine>& lines, const char* field) {
  std::vector<double> values;
  for (const RunLine& line : lines) values.push_back(line[field]);
  return values;
}

double last_of(const std::vector<double>& values) {
  return values.empty() ? std::nan("") : values.back();
}

double greatest(const std::vector<double>& values) {
  double most = std::nan("");
  for (const double value : values) most = std::fmax(most, value);
  return most;
}

/// "11.5 ms (12 %)": of a step, what communication it did not hide.
std::string exposed_text(const RunData& run, const std::vector<RunLine>& train) {
  if (run.world_size == 1) return "-";
  const double exposed = median(column(train, "comm_exposed_ms"));
  return shown("%.1f ms (%.0f %%)", exposed, 100 * exposed / median(column(train, "step_ms")));
}

using Row = std::vector<std::string>;

std::string aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += i == 0 ? row[i] + padding : "  " + padding + row[i];
    }
    text += line + "\n";
  }
  return text;
}

/// What is in a name may be anything; a terminal obeys control characters.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

std::string compare_csv(const std::vector<RunData>& runs) {
  std::vector<std::string> fields;
  for (const RunData& run : runs) {
    for (const RunLine& line : run.lines) {
      for (const auto& [name, value] : line.fields) {
        if (std::count(fields.begin(), fields.end(), name) == 0) fields.push_back(name);
      }
    }
  }
  std::string text = "run,label,kind";
  for (const std::string& field : fields) text += "," + cell(field);
  text += "\r\n";
  const std::vector<std::string> labels = labels_of(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const RunLine& line : runs[i].lines) {
      text += cell(runs[i].path) + "," + cell(labels[i]) + "," + cell(line.kind);
      for (const std::string& field : fields) text += "," + cell(line[field]);
      text += "\r\n";
    }
  }
  return text;
}

std::string compare_table(const std::vector<RunData>& runs) {
  std::vector<Row> rows = {
      {"run", "epochs", "accuracy", "best", "time", "samples/s", "exposed communication"}};
  const std::vector<std::string> labels = labels_of(runs);
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto train = runs[i].of_kind("train");
    const auto accuracy = column(runs[i].evaluations(), "test_accuracy");
    rows.push_back(
        {printable(labels[i]), str(runs[i].of_kind("epoch").size()),
         shown("%.2f %%", 100 * last_of(accuracy)), shown("%.2f %%", 100 * greatest(accuracy)),
         time_text(last_of(column(runs[i].lines, "seconds"))),
         shown("%.0f", median(column(train, "samples_per_second"))), exposed_text(runs[i], train)});
  }
  return aligned(rows);
}

}  // namespace lockstep::report

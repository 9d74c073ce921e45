#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/report/compare.h"
#include "lockstep/report/svg_chart.h"

#include "command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::tools {
namespace {

struct Arguments {
  std::vector<std::string> runs;
  std::string svg, csv;
};

int compare(const Arguments& arguments) {
  check(arguments.runs.size() <= report::kLineStyles, "compare: wanted at most ",
        report::kLineStyles, " runs, got ", arguments.runs.size());
  std::vector<report::RunData> runs;
  for (const std::string& path : arguments.runs) {
    report::RunData run = report::read_run(path);
    if (run.unreadable > 0) {
      std::fprintf(stderr, "lockstep: %s/metrics.jsonl: %zu %s no metrics, passed over\n",
                   path.c_str(), run.unreadable, run.unreadable == 1 ? "line is" : "lines are");
    }
    if (run.lines.empty()) {
      std::fprintf(stderr, "lockstep: %s has no metrics yet, left out\n", path.c_str());
    } else {
      runs.push_back(std::move(run));
    }
  }
  if (runs.empty()) throw IoError("compare: none of the runs has metrics yet");
  std::fputs(report::compare_table(runs).c_str(), stdout);
  if (!arguments.svg.empty()) write_file_atomically(arguments.svg, report::compare_svg(runs));
  if (!arguments.csv.empty()) write_file_atomically(arguments.csv, report::compare_csv(runs));
  return 0;
}

}  // namespace

Command compare_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "compare", "Show runs beside each other: a table, curves of loss and accuracy, their values");
  app->footer(
      "Example: lockstep compare runs/a runs/b -o runs.svg --csv runs.csv\n"
      "Runs are named by the settings in which they differ. A run that is still going is shown as "
      "far\n"
      "as it is.");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("runs", arguments->runs, "Folders that a trainer's --output-dir named")
      ->required();
  app->add_option("-o,--output", arguments->svg,
                  "An SVG file to write: training loss and test accuracy against time and epochs");
  app->add_option("--csv", arguments->csv, "A file to write with every value of every run");
  return {app, [arguments] { return compare(*arguments); }};
}

}  // namespace lockstep::tools

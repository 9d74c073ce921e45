#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/report/page.h"

#include "command.h"

#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

namespace lockstep::tools {
namespace {

struct Arguments {
  std::string run, output, trace;
};

int report(const Arguments& arguments) {
  const report::RunData run = report::read_run(arguments.run);
  const report::RunSteps steps = report::read_steps(arguments.run);
  const std::string page = arguments.output.empty() ? arguments.run + "/report.html"
                                                    : arguments.output,
                    trace =
                        arguments.trace.empty() ? arguments.run + "/trace.json" : arguments.trace;
  write_file_atomically(page,
                        report::report_page(run, steps, report::read_plan_names(arguments.run)));
  std::ostringstream merged;
  report::write_merged_trace(merged, steps);
  write_file_atomically(trace, merged.str());

  const auto ranks = report::ranks_of(steps);
  const report::Verdict verdict = report::verdict_of(report::facts_of(run, steps, ranks));
  std::printf("%s\n%s\n%s\n", verdict.where.c_str(), verdict.why.c_str(), verdict.what.c_str());
  std::printf("written: %s, and %s for ui.perfetto.dev or chrome://tracing\n", page.c_str(),
              trace.c_str());
  return 0;
}

}  // namespace

Command report_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "report", "Show where a run's steps spend their time, and what limits it: a page to open");
  app->footer(
      "Example: lockstep report runs/mine\n"
      "The page is one HTML file that needs no network. A run that is still going is shown as far "
      "as it\nis. Ranks of other hosts: copy their steps.rankN.jsonl into the folder first.");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("run", arguments->run, "A folder that a trainer's --output-dir named")
      ->required();
  app->add_option("-o,--output", arguments->output,
                  "The page (default: report.html in the folder)");
  app->add_option("--trace", arguments->trace,
                  "A trace of all ranks' sampled steps (default: trace.json in the folder)");
  return {app, [arguments] { return report(*arguments); }};
}

}  // namespace lockstep::tools

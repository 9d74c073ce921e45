#include "lockstep/report/diagnosis.h"

#include "command.h"

#include <cstdio>
#include <memory>
#include <string>

namespace lockstep::tools {

Command diagnose_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "diagnose", "Show of a run that has failed which ranks waited for whom, in which collective");
  app->footer(
      "Example: lockstep diagnose runs/mine\n"
      "A trainer with an --output-dir writes the last collectives of each rank there when it "
      "fails, "
      "as\nring.rankN.json. Ranks of other hosts: copy theirs into the folder first.");
  const auto run = std::make_shared<std::string>();
  app->add_option("run", *run, "A folder that a trainer's --output-dir named")->required();
  return {app, [run] {
            std::fputs(report::diagnosis_page(report::read_ring_logs(*run)).c_str(), stdout);
            return 0;
          }};
}

}  // namespace lockstep::tools

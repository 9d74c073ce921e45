// lockstep COMMAND ...: the project's tools in one program. Exit codes: 0, 1 (it failed), 2
// (usage), 128 + signal.
#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/train/command_line.h"
#include "lockstep/train/standard_output.h"

#include "command.h"

#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  CLI::App program("Lockstep's tools", "lockstep");
  program.footer(
      "Examples:\n"
      "  lockstep inspect runs/demo/last.safetensors\n"
      "  lockstep compare runs/a runs/b -o runs.svg\n"
      "lockstep COMMAND --help says more of each.");
  program.require_subcommand(1);
  program.set_version_flag("--version", lockstep::str("lockstep ", lockstep::version(), " (",
                                                      lockstep::build_commit(), ")"));
  const std::vector<lockstep::tools::Command> commands = {
      lockstep::tools::bench_command(program),    lockstep::tools::compare_command(program),
      lockstep::tools::diagnose_command(program), lockstep::tools::doctor_command(program),
      lockstep::tools::export_command(program),   lockstep::tools::inspect_command(program),
      lockstep::tools::launch_command(program),   lockstep::tools::pack_command(program),
      lockstep::tools::predict_command(program),  lockstep::tools::report_command(program),
      lockstep::tools::tokenize_command(program), lockstep::tools::verify_command(program),
      lockstep::tools::vocab_command(program),
  };
  try {
    const auto code = lockstep::parse_command_line(program, lockstep::normalize_flags(argc, argv));
    if (code) return *code;
    for (const auto& command : commands) {
      if (!command.app->parsed()) continue;
      const int exit_code = command.run();
      lockstep::check_standard_output();
      return exit_code;
    }
  } catch (const lockstep::ArgumentError& e) {
    std::cerr << "lockstep: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "lockstep: " << e.what() << "\n";
    return 1;
  }
  return 1;
}

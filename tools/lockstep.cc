// lockstep COMMAND ...: the project's tools in one program. Exit codes: 0, 1 (it failed), 2
// (usage), 128 + signal.
#include "lockstep/base/error.h"
#include "lockstep/base/version.h"

#include "command.h"

#include <iostream>
#include <vector>

int main(int argc, char** argv) {
  CLI::App program("Lockstep's tools");
  program.require_subcommand(1);
  program.set_version_flag("--version", lockstep::str("lockstep ", lockstep::version(), " (",
                                                      lockstep::build_commit(), ")"));
  const std::vector<lockstep::tools::Command> commands = {
      lockstep::tools::doctor_command(program),  lockstep::tools::export_command(program),
      lockstep::tools::inspect_command(program), lockstep::tools::launch_command(program),
      lockstep::tools::pack_command(program),    lockstep::tools::predict_command(program),
  };
  try {
    program.parse(argc, argv);
    for (const auto& command : commands) {
      if (command.app->parsed()) return command.run();
    }
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return program.exit(e);  // --help, --version
    std::cerr << "lockstep: " << e.what() << " (see lockstep --help)\n";
    return 2;
  } catch (const lockstep::ArgumentError& e) {
    std::cerr << "lockstep: " << e.what() << "\n";
    return 2;
  } catch (const std::exception& e) {
    std::cerr << "lockstep: " << e.what() << "\n";
    return 1;
  }
  return 1;
}

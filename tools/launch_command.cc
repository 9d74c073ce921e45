#include "lockstep/distributed/comm/launcher.h"

#include "command.h"

#include <memory>

namespace lockstep::tools {

Command launch_command(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("launch", "Start the processes of one job on this machine");
  app->footer("Example: lockstep launch --nproc 2 -- train_resnet --dataset digits");
  const auto options = std::make_shared<LaunchOptions>();
  app->add_option("-n,--nproc", options->nproc, "How many processes")
      ->required()
      ->check(CLI::Range(1, 1024));
  app->add_option("--master-port", options->master_port, "Port of rank 0 (default: a free one)")
      ->check(CLI::Range(1, 65535));
  app->add_option(
      "--log-dir", options->log_dir,
      "Where the output of ranks other than 0 goes; '-' for the console (default: a new "
      "temporary folder)");
  app->add_option("program", options->command, "The program and its arguments, after --")
      ->required();
  return {app, [options] { return launch(*options); }};
}

}  // namespace lockstep::tools

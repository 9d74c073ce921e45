#include "lockstep/distributed/comm/launcher.h"

#include "command.h"

#include <algorithm>
#include <cstdio>
#include <memory>

namespace lockstep::tools {

namespace {

bool resumes(const std::vector<std::string>& command) {
  return std::any_of(command.begin(), command.end(), [](const std::string& word) {
    return word == "--resume" || word.starts_with("--resume=");
  });
}

}  // namespace

Command launch_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "launch", "Start the processes of one job on this machine, or on several");
  app->footer(
      "Examples: lockstep launch --nproc 2 -- train_resnet --dataset digits\n"
      "          lockstep launch --nproc 2 --nnodes 3 --node-rank 0 --master-addr host0 "
      "--master-port 29500 -- train_resnet\n"
      "          (on host0; on the others with --node-rank 1 and 2)");
  const auto options = std::make_shared<LaunchOptions>();
  app->add_option("-n,--nproc", options->nproc, "How many processes on each machine")
      ->required()
      ->check(CLI::Range(1, 1024));
  app->add_option("--nnodes", options->nnodes, "How many machines")->check(CLI::Range(1, 65536));
  app->add_option("--node-rank", options->node_rank, "Which of them this is, from 0")
      ->check(CLI::Range(0, 65535));
  app->add_option("--master-addr", options->master_addr, "An address of machine 0");
  app->add_option("--master-port", options->master_port,
                  "Port of rank 0; 0, on one machine: a free one")
      ->check(CLI::Range(0, 65535));
  app->add_option(
      "--log-dir", options->log_dir,
      "Where the output of ranks other than 0 goes, - for the console; not given: a new temporary "
      "folder");
  const auto grace = std::make_shared<double>(30);
  app->add_option("--grace", *grace,
                  "Seconds that the processes may take to save and end after SIGTERM or SIGUSR1")
      ->check(CLI::Range(0.0, 1e6));
  app->add_option("--max-restarts", options->max_restarts,
                  "Start the whole job again when a process has died, at most so many times; the "
                  "program goes on from its checkpoint if it was given --resume auto")
      ->check(CLI::Range(0, 1000000));
  app->add_flag("--restart-with-fewer", options->restart_with_fewer,
                "Each restart with one process less");
  app->add_option("program", options->command, "The program and its arguments, after --")
      ->required();
  return {app, [options, grace] {
            options->stop_grace = std::chrono::milliseconds(static_cast<int64_t>(*grace * 1000));
            if (options->max_restarts > 0 && !resumes(options->command)) {
              std::fputs(
                  "lockstep: --max-restarts: the program was given no --resume auto; a restart "
                  "begins from the start\n",
                  stderr);
            }
            return launch(*options);
          }};
}

}  // namespace lockstep::tools

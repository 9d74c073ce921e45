// A command of the lockstep program: declares its arguments on the command line, and gives what is
// to be done.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace lockstep::tools {

struct Command {
  CLI::App* app = nullptr;        // its part of the command line
  std::function<int()> run = {};  // returns the exit code; called once the line has been parsed
};

Command bench_command(CLI::App& program);
Command compare_command(CLI::App& program);
Command diagnose_command(CLI::App& program);
Command doctor_command(CLI::App& program);
Command export_command(CLI::App& program);
Command inspect_command(CLI::App& program);
Command launch_command(CLI::App& program);
Command pack_command(CLI::App& program);
Command predict_command(CLI::App& program);
Command report_command(CLI::App& program);
Command tokenize_command(CLI::App& program);
Command verify_command(CLI::App& program);
Command vocab_command(CLI::App& program);

}  // namespace lockstep::tools

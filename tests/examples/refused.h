// How a program refuses what is wrong with what it is given.
#pragma once

#include "lockstep/tests/examples/trainer_process.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace lockstep::testing {

/// Runs it and checks how it fails: with 1 or 2, and one line that has `words` in it.
inline void check_refused(const std::string& program, const std::vector<std::string>& arguments,
                          const std::string& words, const ProcessOptions& options = {}) {
  const auto run = run_program(program.c_str(), arguments, options);
  const std::string err = run->err();
  CAPTURE(arguments);
  CAPTURE(err);
  CHECK((run->exit_code() == 1 || run->exit_code() == 2));
  CHECK(err.starts_with(program.substr(program.rfind('/') + 1) + ": "));
  CHECK(std::count(err.begin(), err.end(), '\n') == 1);
  CHECK(err.find(words) != std::string::npos);
}

}  // namespace lockstep::testing

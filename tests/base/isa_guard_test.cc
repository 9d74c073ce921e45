#include "lockstep/base/isa_guard.h"

#include <doctest/doctest.h>

#include <string>

namespace lockstep {
namespace {

std::string complaint(IsaBits built_for, IsaBits available) {
  char line[512];
  return std::string(line, isa_complaint(built_for, available, line, sizeof line));
}

TEST_CASE("the program itself runs here, and knows what it was built for") {
  CHECK(complaint(lockstep_isa_built_for, isa_available()).empty());
#ifdef __AVX2__
  CHECK((lockstep_isa_built_for & (IsaBits{1} << 6)) != 0);
#else
  CHECK((lockstep_isa_built_for & (IsaBits{1} << 6)) == 0);
#endif
}

TEST_CASE("what is missing is named on one line, with the remedy") {
  const std::string line = complaint((1 << 5) | (1 << 6) | (1 << 7), 1 << 5);
  CHECK(line.find("lacks: avx2 fma;") != std::string::npos);
  CHECK(line.find("--config=baseline") != std::string::npos);
  CHECK(line.find('\n') == line.size() - 1);
  CHECK(complaint(~IsaBits{0}, 0).back() == '\n');
}

}  // namespace
}  // namespace lockstep

// Prints docs/onnx_cases.md.
#include "lockstep/tests/onnx/cases.h"

#include <cstdio>
#include <exception>

int main() {
  using namespace lockstep::testing;
  try {
    std::fputs(onnx_page(run_onnx_cases(kOnnxCases)).c_str(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "page: %s\n", error.what());
    return 1;
  }
}

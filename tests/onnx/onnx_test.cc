// Every operator case of ONNX that maps to an op here gives ONNX's outputs.
#include "lockstep/tests/onnx/cases.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace lockstep {
namespace {

using namespace testing;
using Kind = OnnxResult::Kind;

/// What Debian 12's version of the data has, and how many of these map.
constexpr size_t kCases = 932;
constexpr auto kMapped = 501;

TEST_CASE("ONNX's operator cases") {
  if (!std::filesystem::exists(kOnnxCases)) {
    std::puts("SKIPPED: libonnx-testdata is not installed");
    return;
  }
  const std::vector<OnnxResult> results = run_onnx_cases(kOnnxCases);
  const auto count = [&](Kind kind) {
    return std::count_if(results.begin(), results.end(),
                         [&](const OnnxResult& result) { return result.kind == kind; });
  };
  std::printf("onnx: %td cases pass, %td fail, %td do not map\n", count(Kind::kPassed),
              count(Kind::kFailed), count(Kind::kNotMapped));
  for (const OnnxResult& result : results) {
    CHECK_MESSAGE(result.kind != Kind::kFailed, result.name, ": ", result.note);
  }
  CHECK(count(Kind::kPassed) >= kMapped);

  if (results.size() != kCases) {
    std::printf("docs/onnx_cases.md is about %zu cases; not compared\n", kCases);
    return;
  }
  std::ifstream file("docs/onnx_cases.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  CHECK_MESSAGE(page == onnx_page(results),
                "docs/onnx_cases.md is stale: bazel run --config=opt //tests/onnx:page >"
                " docs/onnx_cases.md");
}

}  // namespace
}  // namespace lockstep

// The operator cases of the ONNX project: graphs of one node, mostly, with inputs and the outputs
// that ONNX's reference implementation gives.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::testing {

/// Where Debian's package libonnx-testdata puts them.
inline const std::filesystem::path kOnnxCases = "/usr/share/libonnx-testdata/data/node";

struct OnnxResult {
  enum class Kind { kPassed, kFailed, kNotMapped };
  std::string name;
  /// The operator, or of a function's body the function and "(body)".
  std::string op;
  Kind kind = Kind::kFailed;
  /// What differs, or why the case is not run.
  std::string note = {};
};

/// Runs every case below `folder`, in the order of their names.
std::vector<OnnxResult> run_onnx_cases(const std::filesystem::path& folder);

/// docs/onnx_cases.md.
std::string onnx_page(const std::vector<OnnxResult>& results);

}  // namespace lockstep::testing

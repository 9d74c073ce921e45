#include "lockstep/base/str.h"
#include "lockstep/tests/onnx/cases.h"
#include "lockstep/tests/onnx/node.h"

#include <algorithm>
#include <map>

namespace lockstep::testing {
namespace {

struct Row {
  int cases = 0, passed = 0;
  std::map<std::string, int> reasons;
};

/// "why (how many); ...", with all dtypes as one reason.
std::string reasons_of(const Row& row) {
  std::string text, dtypes;
  int of_dtypes = 0;
  const auto append = [](std::string& to, const std::string& separator, const std::string& what) {
    to += (to.empty() ? "" : separator) + what;
  };
  for (const auto& [reason, count] : row.reasons) {
    if (reason.starts_with("dtype ")) {
      append(dtypes, ", ", reason.substr(std::string("dtype ").size()));
      of_dtypes += count;
    } else {
      append(text, "; ", str(reason, " (", count, ")"));
    }
  }
  if (of_dtypes > 0) append(text, "; ", str("dtype ", dtypes, " (", of_dtypes, ")"));
  return text;
}

const char* through(const std::string& op) {
  const OnnxAdapter* adapter = find_adapter(op);
  return adapter == nullptr ? "the ops of its nodes" : adapter->through;
}

}  // namespace

std::string onnx_page(const std::vector<OnnxResult>& results) {
  std::map<std::string, Row> rows;
  int passed = 0, failed = 0;
  for (const OnnxResult& result : results) {
    Row& row = rows[result.op];
    row.cases += 1;
    row.passed += result.kind == OnnxResult::Kind::kPassed;
    passed += result.kind == OnnxResult::Kind::kPassed;
    failed += result.kind == OnnxResult::Kind::kFailed;
    if (result.kind == OnnxResult::Kind::kNotMapped) row.reasons[result.note] += 1;
  }
  const int mapped = passed + failed, all = static_cast<int>(results.size());
  std::string page = str(
      "# Operator cases of ONNX\n\n"
      "The ONNX project keeps, for each of its operators, small graphs with inputs and the outputs "
      "of its reference\n"
      "implementation. Debian 12's package `libonnx-testdata` (1.12, 6 MB, 21 MB unpacked) holds ",
      all, " of them: ", mapped, " map to\nops here, and ", passed, " pass; ", all - mapped,
      " do not map. `tests/onnx` runs them all and compares this page with what it found;\n"
      "`bazel run --config=opt //tests/onnx:page > docs/onnx_cases.md` writes it.\n\n"
      "Images and classes are moved to the last dimension on the way in. *(body)* is an operator "
      "written out in others, and\n"
      "the case passes when all of these map. An op that is not in `autograd/ops` has its `ops::` "
      "(`tensor/ops`).\n\n"
      "| operator | cases | pass | through | not run, and why |\n|---|---|---|---|---|\n");
  for (const auto& [op, row] : rows) {
    if (row.passed == 0) continue;
    page += str("| ", op, " | ", row.cases, " | ", row.passed, " | ", through(op), " | ",
                reasons_of(row), " |\n");
  }
  page += "\n## Operators of which no case maps\n\n| operator | cases | why |\n|---|---|---|\n";
  for (const auto& [op, row] : rows) {
    if (row.passed == 0) {
      page += str("| ", op, " | ", row.cases, " | ",
                  row.reasons.size() == 1 ? row.reasons.begin()->first : reasons_of(row), " |\n");
    }
  }
  return page;
}

}  // namespace lockstep::testing

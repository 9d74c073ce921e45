#include "lockstep/tests/support/golden.h"

#include "lockstep/base/str.h"

namespace lockstep::testing {

std::string check_golden(const TensorFile& file, const std::string& case_name, const Function& fn,
                         double tolerance) {
  std::vector<Variable> inputs;
  while (const Tensor* input = file.find(str(case_name, ".input", inputs.size())))
    inputs.emplace_back(*input, true);
  const Variable result = fn(inputs);
  result.backward(file.at(case_name + ".grad_result"));

  const auto compare = [&](const std::string& what, const Tensor& got) -> std::string {
    const double difference = relative_difference(got, file.at(str(case_name, ".", what)));
    return difference <= tolerance ? "" : str(case_name, ": ", what, " differs by ", difference);
  };
  std::string difference = compare("result", result.data());
  for (size_t i = 0; difference.empty() && i < inputs.size(); ++i) {
    if (!inputs[i].grad()) return str(case_name, ": input ", i, " got no gradient");
    difference = compare(str("grad", i), *inputs[i].grad());
  }
  return difference;
}

}  // namespace lockstep::testing

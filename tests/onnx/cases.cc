#include "lockstep/tests/onnx/cases.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/onnx/node.h"
#include "lockstep/tests/onnx/proto.h"
#include "lockstep/tests/support/gradcheck.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;
using Values = std::map<std::string, Tensor>;

template <class Message>
Message read_message(const fs::path& path) {
  Message message;
  std::ifstream in(path, std::ios::binary);
  check(message.ParseFromIstream(&in), path.string(), ": not the protobuf message wanted");
  return message;
}

/// ||a - b||_inf / ||b||_inf of floating tensors. The values were computed in f32, partly by other
/// orders of summation, from sums of up to a few thousand terms, and our exp and log are good to
/// 2^-18 (tensor/ops/unary.h). Casts and functions in f64 have no such excuse.
double tolerance_of(DType dtype) {
  if (dtype == DType::kF64) return 1e-12;
  return dtype == DType::kF32 ? 1e-5 : 0;
}

/// Empty, or how they differ.
std::string difference(const Tensor& got, const Tensor& wanted) {
  if (got.shape() != wanted.shape() || got.dtype() != wanted.dtype()) {
    return str("wanted ", name_of(wanted.dtype()), " ", wanted.shape(), ", got ",
               name_of(got.dtype()), " ", got.shape());
  }
  if (is_floating(got.dtype())) {
    const double differ = relative_difference(got, wanted);
    return differ <= tolerance_of(got.dtype()) ? "" : str("relative difference ", differ);
  }
  return std::memcmp(got.raw(), wanted.raw(), got.nbytes()) == 0 ? "" : "other integers";
}

void check_mapped(const onnx::GraphProto& graph) {
  for (const onnx::NodeProto& node : graph.node()) {
    if (find_adapter(node.op_type()) != nullptr) continue;
    const std::string why = why_no_adapter(node.op_type());
    throw NotMapped{graph.node_size() == 1 ? why : str("`", node.op_type(), "`: ", why)};
  }
}

/// The bodies of functions reckon with shapes and positions, which are i64, in the operators of
/// arithmetic; that is done in f64, which is exact below 2^53.
bool reckons(const onnx::NodeProto& node, std::vector<Tensor>& inputs) {
  const std::string& op = node.op_type();
  if (op != "Add" && op != "Sub" && op != "Mul" && op != "Neg" && op != "Where") return false;
  bool integers = false;
  for (Tensor& input : inputs) {
    if (input.dtype() != DType::kI64) continue;
    input = ops::cast(input, DType::kF64);
    integers = true;
  }
  return integers;
}

/// Runs the nodes one after the other (ONNX stores them in an order that works).
void run_graph(const onnx::ModelProto& model, Values& values) {
  int64_t opset = 0;
  for (const auto& import : model.opset_import()) opset = std::max(opset, import.version());
  for (const onnx::NodeProto& node : model.graph().node()) {
    std::vector<Tensor> inputs;
    for (const std::string& name : node.input()) {
      check(name.empty() || values.contains(name), "no value called ", name);
      inputs.push_back(name.empty() ? Tensor() : values.at(name));
    }
    const bool integers = model.graph().node_size() > 1 && reckons(node, inputs);
    const auto outputs = find_adapter(node.op_type())->run(OnnxNode(node, inputs, opset));
    for (int i = 0; i < node.output_size(); ++i) {
      check(static_cast<size_t>(i) < outputs.size(), node.op_type(), " has no output ", i);
      const Tensor& output = outputs[static_cast<size_t>(i)];
      values[node.output(i)] = integers ? ops::cast(output, DType::kI64) : output;
    }
  }
}

std::string run_data_set(const onnx::ModelProto& model, const fs::path& data) {
  const onnx::GraphProto& graph = model.graph();
  Values values;
  for (const auto& initial : graph.initializer()) values[initial.name()] = to_tensor(initial);
  int input = 0;
  for (const auto& wanted : graph.input()) {
    if (values.contains(wanted.name())) continue;
    unless(wanted.type().has_tensor_type(), "no sequences or optional values");
    const auto file = data / str("input_", input++, ".pb");
    values[wanted.name()] = to_tensor(read_message<onnx::TensorProto>(file));
  }
  run_graph(model, values);
  for (int i = 0; i < graph.output_size(); ++i) {
    const auto file = data / str("output_", i, ".pb");
    const Tensor wanted = to_tensor(read_message<onnx::TensorProto>(file));
    const std::string differ = difference(values.at(graph.output(i).name()), wanted);
    if (!differ.empty()) return str("output ", i, ": ", differ);
  }
  return "";
}

/// "test_softmax_axis_0_expanded" is the body of the function that "test_softmax_axis_0" calls.
std::string operator_of(const fs::path& folder, const onnx::GraphProto& graph) {
  const std::string suffix = "_expanded", path = folder.string();
  if (!path.ends_with(suffix)) {
    const auto node = std::find_if(graph.node().begin(), graph.node().end(),
                                   [](const auto& n) { return n.op_type() != "Constant"; });
    return node == graph.node().end() ? "Constant" : node->op_type();
  }
  const fs::path whole = fs::path(path.substr(0, path.size() - suffix.size())) / "model.onnx";
  return read_message<onnx::ModelProto>(whole).graph().node(0).op_type() + " (body)";
}

OnnxResult run_case(const fs::path& folder) {
  OnnxResult result{.name = folder.filename().string(), .op = "unreadable"};
  try {
    const auto model = read_message<onnx::ModelProto>(folder / "model.onnx");
    check(model.graph().node_size() > 0, "a graph without nodes");
    result.op = operator_of(folder, model.graph());
    check_mapped(model.graph());
    int data_sets = 0;
    for (; result.note.empty(); ++data_sets) {
      const fs::path data = folder / str("test_data_set_", data_sets);
      if (!fs::exists(data)) break;
      result.note = run_data_set(model, data);
    }
    check(data_sets > 0, "no data");
    if (result.note.empty()) result.kind = OnnxResult::Kind::kPassed;
  } catch (const NotMapped& why) {
    result.kind = OnnxResult::Kind::kNotMapped;
    result.note = why.reason;
  } catch (const std::exception& error) {
    result.note = error.what();
  }
  return result;
}

}  // namespace

std::vector<OnnxResult> run_onnx_cases(const fs::path& folder) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(folder)) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  std::vector<OnnxResult> results;
  for (const fs::path& path : folders) results.push_back(run_case(path));
  return results;
}

}  // namespace lockstep::testing

// One node of an ONNX graph with the tensors that it reads, and the operators that map to ops.
#pragma once

#include "lockstep/autograd/variable.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace onnx {
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace lockstep::testing {

/// Thrown by what meets a case that no op here can do, by design; `reason` goes into the table.
struct NotMapped {
  std::string reason;
};
inline void unless(bool mapped, const std::string& reason) {
  if (!mapped) throw NotMapped{reason};
}

/// The tensor; a boolean is u8. NotMapped for element types that there are none of, ArgumentError
/// when there are not as many elements as the shape says.
Tensor to_tensor(const onnx::TensorProto& proto);

class OnnxNode {
 public:
  /// An input that is left out is an undefined tensor. `opset` is the version of the operators.
  OnnxNode(const onnx::NodeProto& proto, std::vector<Tensor> inputs, int64_t opset);

  size_t inputs() const { return inputs_.size(); }
  size_t outputs() const { return outputs_; }
  int64_t opset() const { return opset_; }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  /// Input i of any dtype; ArgumentError when it is left out.
  const Tensor& tensor(size_t i) const;
  /// Input i to compute with; NotMapped unless it is f32, f64 or bf16.
  Variable var(size_t i) const;
  /// The same, or an undefined Variable when it is left out.
  Variable optional_var(size_t i) const { return has(i) ? var(i) : Variable(); }
  /// Input i, an i64 tensor, as numbers.
  std::vector<int64_t> list(size_t i) const;

  // Attributes, or `otherwise` when there is none of that name.
  bool has_attribute(const std::string& name) const { return attributes_.contains(name); }
  int64_t integer(const std::string& name, int64_t otherwise) const;
  double number(const std::string& name, double otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  std::vector<int64_t> integers(const std::string& name, std::vector<int64_t> otherwise = {}) const;
  Tensor value(const std::string& name) const;

 private:
  struct Attribute {
    int64_t integer = 0;
    double number = 0;
    std::string text;
    std::vector<int64_t> integers;
    Tensor tensor;
  };
  std::vector<Tensor> inputs_;
  size_t outputs_;
  int64_t opset_;
  std::map<std::string, Attribute> attributes_;
};

/// An operator and the ops that do it.
struct OnnxAdapter {
  const char* op;
  const char* through;  // for the table
  std::vector<Tensor> (*run)(const OnnxNode& node);
};

std::span<const OnnxAdapter> elementwise_adapters();
std::span<const OnnxAdapter> layout_adapters();
std::span<const OnnxAdapter> reduce_adapters();
std::span<const OnnxAdapter> image_adapters();
std::span<const OnnxAdapter> norm_adapters();
std::span<const OnnxAdapter> loss_adapters();
std::span<const OnnxAdapter> optimizer_adapters();

/// What does `op`; null: nothing.
const OnnxAdapter* find_adapter(const std::string& op);
/// Why nothing does.
std::string why_no_adapter(const std::string& op);

}  // namespace lockstep::testing

#include "lockstep/tests/onnx/node.h"
#include "lockstep/tests/onnx/proto.h"

#include <bit>
#include <cctype>
#include <cstring>

namespace lockstep::testing {
namespace {

template <class T, class Numbers>
Tensor from_numbers(const Numbers& numbers, const Shape& shape) {
  std::vector<T> values;
  for (const auto number : numbers) {
    if constexpr (sizeof(T) == 2) {
      values.push_back(std::bit_cast<T>(static_cast<uint16_t>(number)));  // half a float's bits
    } else {
      values.push_back(static_cast<T>(number));
    }
  }
  return Tensor::from(values, shape);
}

template <class T, class Numbers>
Tensor read(const onnx::TensorProto& proto, const Numbers& numbers, const Shape& shape) {
  if (!proto.has_raw_data()) return from_numbers<T>(numbers, shape);
  const std::string& raw = proto.raw_data();
  check(raw.size() == static_cast<size_t>(shape.numel()) * sizeof(T), "ONNX tensor ", proto.name(),
        ": shape ", shape, " wants ", shape.numel(), " elements, got ", raw.size(), " bytes");
  std::vector<T> values(static_cast<size_t>(shape.numel()));
  if (!values.empty()) std::memcpy(values.data(), raw.data(), raw.size());
  return Tensor::from(values, shape);
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(c));
  return text;
}

}  // namespace

Tensor to_tensor(const onnx::TensorProto& proto) {
  const std::vector<int64_t> dims(proto.dims().begin(), proto.dims().end());
  const Shape shape(dims.data(), static_cast<int>(dims.size()));
  switch (proto.data_type()) {
    case onnx::TensorProto::FLOAT:
      return read<float>(proto, proto.float_data(), shape);
    case onnx::TensorProto::DOUBLE:
      return read<double>(proto, proto.double_data(), shape);
    case onnx::TensorProto::FLOAT16:
      return read<f16>(proto, proto.int32_data(), shape);
    case onnx::TensorProto::BFLOAT16:
      return read<bf16>(proto, proto.int32_data(), shape);
    case onnx::TensorProto::INT64:
      return read<int64_t>(proto, proto.int64_data(), shape);
    case onnx::TensorProto::INT32:
      return read<int32_t>(proto, proto.int32_data(), shape);
    case onnx::TensorProto::UINT8:
    case onnx::TensorProto::BOOL:
      return read<uint8_t>(proto, proto.int32_data(), shape);
    default:
      throw NotMapped{"dtype " + lower(onnx::TensorProto::DataType_Name(
                                     static_cast<onnx::TensorProto::DataType>(proto.data_type())))};
  }
}

OnnxNode::OnnxNode(const onnx::NodeProto& proto, std::vector<Tensor> inputs, int64_t opset)
    : inputs_(std::move(inputs)),
      outputs_(static_cast<size_t>(proto.output_size())),
      opset_(opset) {
  for (const onnx::AttributeProto& a : proto.attribute()) {
    Attribute& attribute = attributes_[a.name()];
    attribute.integer = a.i();
    attribute.number = static_cast<double>(a.f());
    attribute.text = a.s();
    attribute.integers.assign(a.ints().begin(), a.ints().end());
    if (a.has_t()) attribute.tensor = to_tensor(a.t());
  }
}

const Tensor& OnnxNode::tensor(size_t i) const {
  check(has(i), "ONNX node: input ", i, " is left out");
  return inputs_[i];
}

Variable OnnxNode::var(size_t i) const {
  unless(is_computable(tensor(i).dtype()), str("dtype ", name_of(tensor(i).dtype())));
  return Variable(tensor(i));
}

std::vector<int64_t> OnnxNode::list(size_t i) const { return tensor(i).to_vector<int64_t>(); }

int64_t OnnxNode::integer(const std::string& name, int64_t otherwise) const {
  return has_attribute(name) ? attributes_.at(name).integer : otherwise;
}
double OnnxNode::number(const std::string& name, double otherwise) const {
  return has_attribute(name) ? attributes_.at(name).number : otherwise;
}
std::string OnnxNode::text(const std::string& name, const std::string& otherwise) const {
  return has_attribute(name) ? attributes_.at(name).text : otherwise;
}
std::vector<int64_t> OnnxNode::integers(const std::string& name,
                                        std::vector<int64_t> otherwise) const {
  return has_attribute(name) ? attributes_.at(name).integers : otherwise;
}
Tensor OnnxNode::value(const std::string& name) const {
  check(has_attribute(name), "ONNX node: there is no attribute ", name);
  return attributes_.at(name).tensor;
}

}  // namespace lockstep::testing

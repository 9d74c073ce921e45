#include "lockstep/io/safetensors_header.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr std::pair<const char*, DType> kDTypes[] = {
    {"F32", DType::kF32}, {"F64", DType::kF64}, {"BF16", DType::kBF16}, {"I64", DType::kI64},
    {"I32", DType::kI32}, {"U8", DType::kU8},   {"F16", DType::kF16},
};

std::optional<DType> dtype_named(const std::string& name) {
  for (const auto& [text, dtype] : kDTypes) {
    if (name == text) return dtype;
  }
  return std::nullopt;
}

const char* name_in_file(DType dtype) {
  for (const auto& [text, value] : kDTypes) {
    if (value == dtype) return text;
  }
  return "?";
}

// Receives the parser's events. No tree is built, so a hostile header costs no more memory than its
// own length.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  const std::string& error() const { return error_; }
  TensorFileHeader& header() { return header_; }

  bool null() override { return reject("null"); }
  bool boolean(bool) override { return reject("a boolean"); }
  bool number_integer(number_integer_t) override { return reject("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return reject("a fraction"); }
  bool binary(binary_t&) override { return reject("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kShape && place_ != Place::kOffsets) return reject("a number");
    const bool shape = place_ == Place::kShape;
    if (numbers_.size() >= (shape ? Shape::kMaxDims : 2)) {
      return reject(shape ? "more than eight dimensions" : "more than two offsets");
    }
    numbers_.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      if (!header_.metadata.emplace(key_, value).second) return reject("the name twice");
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") return reject("a string");
    const auto dtype = dtype_named(value);
    if (!dtype) {
      return fail("wanted an element type F32, F64, BF16, I64, I32 or U8, got \"" + value + '"');
    }
    entry_.dtype = *dtype;
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && key_ == "__metadata__") {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      entry_ = TensorEntry();
      entry_.name = key_;
      fields_.clear();
    } else {
      return reject("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    key_ = value;
    if (place_ == Place::kTop && !names_.insert(value).second) {
      return fail("the name \"" + value + "\" appears twice");
    }
    if (place_ == Place::kTensor) {
      if (value != "dtype" && value != "shape" && value != "data_offsets") {
        return fail("tensor \"" + entry_.name + "\" has an unknown field \"" + value + '"');
      }
      if (!fields_.insert(value).second) return reject("the field twice");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (fields_.size() != 3) {
        return fail("tensor \"" + entry_.name + "\" lacks dtype, shape or data_offsets");
      }
      header_.tensors.push_back(std::move(entry_));
    }
    place_ = place_ == Place::kTop ? Place::kStart : Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") return reject("an array");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    numbers_.clear();
    return true;
  }

  bool end_array() override { return place_ == Place::kShape ? take_shape() : take_offsets(); }

  bool parse_error(size_t position, const std::string&, const Json::exception&) override {
    return fail("the header is not valid JSON (byte " + std::to_string(position) + ')');
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };

  bool fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  bool reject(const char* what) {
    const bool in_tensor = place_ >= Place::kTensor;
    return fail(str("did not expect ", what, " in ",
                    in_tensor ? "tensor \"" + entry_.name + "\", " : "", '"', key_, '"'));
  }

  bool take_shape() {
    place_ = Place::kTensor;
    int64_t dims[Shape::kMaxDims] = {};
    for (size_t i = 0; i < numbers_.size(); ++i) {
      if (numbers_[i] > uint64_t{1} << 62) return reject("so large an extent");
      dims[i] = static_cast<int64_t>(numbers_[i]);
    }
    try {
      entry_.shape = Shape(dims, static_cast<int>(numbers_.size()));
    } catch (const ArgumentError&) {
      return reject("so many elements");
    }
    return true;
  }

  bool take_offsets() {
    place_ = Place::kTensor;
    if (numbers_.size() != 2 || numbers_[0] > numbers_[1]) return reject("these offsets");
    entry_.offset = numbers_[0];
    entry_.bytes = numbers_[1] - numbers_[0];
    return true;
  }

  Place place_ = Place::kStart;
  std::string key_;
  TensorEntry entry_;
  std::vector<uint64_t> numbers_;
  std::set<std::string> names_, fields_;
  std::string error_;
  TensorFileHeader header_;
};

}  // namespace

TensorFileHeader parse_safetensors_header(std::string_view json, uint64_t data_begin,
                                          uint64_t data_bytes, const std::string& name) {
  const auto refuse = [&](const auto&... parts) {
    throw IoError(str("read_safetensors: ", name, ": ", parts...));
  };
  if (json.empty() || json.front() != '{') refuse("the header does not begin with '{'");
  HeaderReader reader;
  if (!Json::sax_parse(json.begin(), json.end(), &reader)) refuse(reader.error());

  auto& tensors = reader.header().tensors;
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  uint64_t end = 0;
  for (TensorEntry& tensor : tensors) {
    uint64_t wanted = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(tensor.shape.numel()), size_of(tensor.dtype),
                               &wanted) ||
        wanted != tensor.bytes) {
      refuse("tensor \"", tensor.name, "\": ", name_of(tensor.dtype), ' ', tensor.shape,
             " does not take the ", tensor.bytes, " bytes that its offsets give it");
    }
    if (tensor.offset != end) {
      refuse("tensor \"", tensor.name, "\" ",
             tensor.offset < end ? "overlaps" : "leaves a gap after",
             " the one before: wanted offset ", end, ", got ", tensor.offset);
    }
    end += tensor.bytes;  // Cannot overflow: offset + bytes was read as one number.
    tensor.offset += data_begin;
  }
  if (end != data_bytes) {
    refuse("the tensors take ", end, " bytes, but ", data_bytes, " follow the header; the file is ",
           end > data_bytes ? "cut short" : "too long");
  }
  return std::move(reader.header());
}

std::string format_safetensors_header(std::span<const TensorEntry> tensors,
                                      const Metadata& metadata) {
  try {
    // Written by hand: a Json object would sort the names.
    std::ostringstream text;
    text << '{';
    const char* separator = "";
    if (!metadata.empty()) {
      text << "\"__metadata__\":" << Json(metadata).dump();
      separator = ",";
    }
    for (const TensorEntry& tensor : tensors) {
      text << std::exchange(separator, ",") << Json(tensor.name).dump() << ":{\"dtype\":\""
           << name_in_file(tensor.dtype) << "\",\"shape\":"
           << Json(std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())).dump()
           << ",\"data_offsets\":[" << tensor.offset << ',' << tensor.offset + tensor.bytes << "]}";
    }
    text << '}';
    return text.str();
  } catch (const Json::exception&) {
    throw ArgumentError("write_safetensors: wanted names and metadata in UTF-8");
  }
}

}  // namespace lockstep

#include "lockstep/distributed/reduce/plan_json.h"

#include "lockstep/base/error.h"
#include "lockstep/io/json_text.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr int kDepth = 4;  // of a plan: the file, its buckets, a bucket, its names

/// Reads one file's plan; knows how to refuse it.
class Reader {
 public:
  Reader(std::span<const ParamSpec> params, const std::string& file)
      : params_(params), file_(file) {
    for (size_t i = 0; i < params.size(); ++i) index_[params[i].name] = static_cast<int>(i);
  }

  BucketPlan read(const std::string& text) const {
    const Json json = parse(text);
    if (!json.is_object())
      refuse("wanted an object with format and buckets, got ", json_text(json));
    const Json& format = member(json, "format", "");
    if (format != kFormat) refuse("wanted format ", kFormat, ", got ", json_text(format));
    const Json& buckets = array(member(json, "buckets", ""), "buckets");
    BucketPlan plan;
    for (size_t b = 0; b < buckets.size(); ++b) {
      plan.buckets.push_back(bucket(buckets[b], str("bucket ", b)));
    }
    try {
      check_plan(plan, params_);
    } catch (const ArgumentError& error) {
      throw IoError(str(file_, ": ", error.what()));
    }
    return plan;
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw IoError(str(file_, ": bucket plan: ", parts...));
  }

  Json parse(const std::string& text) const {
    const auto not_deep = [this](int depth, Json::parse_event_t, Json&) {
      if (depth > kDepth) refuse("wanted an object with format and buckets, got deeper nesting");
      return true;
    };
    try {
      return Json::parse(text, not_deep);
    } catch (const Json::parse_error& error) {
      refuse("wanted JSON, got something else at byte ", error.byte);
    } catch (const Json::exception&) {
      refuse("wanted JSON, got a number beyond all bounds");
    }
  }

  const Json& member(const Json& object, const char* key, const std::string& where) const {
    const auto found = object.find(key);
    if (found == object.end()) refuse(where, "wanted \"", key, "\", got none");
    return *found;
  }

  const Json& array(const Json& value, const std::string& what) const {
    if (!value.is_array()) refuse("wanted an array of ", what, ", got ", json_text(value));
    return value;
  }

  Bucket bucket(const Json& json, const std::string& where) const {
    if (!json.is_object()) refuse(where, ": wanted an object, got ", json_text(json));
    Bucket bucket;
    for (const Json& name : array(member(json, "params", where + ": "), where + "'s params")) {
      const auto found =
          name.is_string() ? index_.find(name.get_ref<const std::string&>()) : index_.end();
      if (found == index_.end()) {
        refuse(where, ": wanted the name of a parameter that is trained, got ", json_text(name));
      }
      const ParamSpec& param = params_[static_cast<size_t>(found->second)];
      if (bucket.params.empty()) bucket.dtype = param.dtype;
      bucket.params.push_back(found->second);
      bucket.bytes += param.bytes();
    }
    if (bucket.params.empty()) refuse(where, ": wanted at least one parameter, got none");
    require_same(json, "dtype", name_of(bucket.dtype), where);
    require_same(json, "bytes", bucket.bytes, where);
    return bucket;
  }

  /// What the file says beside the names must be right, or be left out.
  void require_same(const Json& json, const char* key, const Json& wanted,
                    const std::string& where) const {
    const auto found = json.find(key);
    if (found == json.end() || *found == wanted) return;
    refuse(where, ": wanted ", key, " ", json_text(wanted), " as its parameters have, got ",
           json_text(*found), "; correct it or leave it out");
  }

  std::span<const ParamSpec> params_;
  std::string file_;
  std::map<std::string, int> index_;
};

}  // namespace

std::string to_json(const BucketPlan& plan, std::span<const ParamSpec> params) {
  check_plan(plan, params);
  Json json;
  json["format"] = kFormat;
  json["buckets"] = Json::array();
  for (const Bucket& bucket : plan.buckets) {
    Json names = Json::array();
    for (int i : bucket.params) names.push_back(params[static_cast<size_t>(i)].name);
    json["buckets"].push_back(
        {{"dtype", name_of(bucket.dtype)}, {"bytes", bucket.bytes}, {"params", std::move(names)}});
  }
  try {
    return json.dump(2) + "\n";
  } catch (const Json::exception&) {
    throw ArgumentError("to_json: wanted names of parameters in UTF-8");
  }
}

BucketPlan plan_from_json(const std::string& text, std::span<const ParamSpec> params,
                          const std::string& file) {
  return Reader(params, file).read(text);
}

}  // namespace lockstep

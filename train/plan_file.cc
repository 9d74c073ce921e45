#include "lockstep/train/plan_file.h"

#include "lockstep/base/error.h"
#include "lockstep/io/file.h"
#include "lockstep/io/json_text.h"

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr int kDepth = 2;               // of a plan: the file, its plans
constexpr size_t kLongest = 1024;       // bytes of a text; those of cuDNN have some 200
constexpr uint64_t kLargest = 1 << 24;  // bytes of a file

/// Reads one file's plans; knows how to refuse it.
class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  PlanFile read(const std::string& text) const {
    const Json json = parse(text);
    if (!json.is_object()) refuse("an object with format, library, device and plans", json);
    if (member(json, "format") != kFormat) refuse(str("format ", kFormat), member(json, "format"));
    PlanFile read{.origin = {.library = text_in(member(json, "library"), "library"),
                             .device = text_in(member(json, "device"), "device")},
                  .plans = {}};
    const Json& plans = member(json, "plans");
    if (!plans.is_object()) refuse("an object as plans", plans);
    for (const auto& [problem, plan] : plans.items()) {
      if (problem.size() > kLongest) refuse("a problem's name", problem);
      read.plans[problem] = text_in(plan, "plan");
    }
    return read;
  }

 private:
  /// Says what helps, too.
  [[noreturn]] void refuse(const std::string& wanted, const Json& got) const {
    refuse_words(wanted, json_text(got));
  }
  [[noreturn]] void refuse_words(const std::string& wanted, const std::string& got) const {
    throw IoError(str(file_, ": cuDNN plans: wanted ", wanted, ", got ", got,
                      "; remove the file, and --cudnn-benchmark makes it anew"));
  }

  Json parse(const std::string& text) const {
    const auto not_deep = [this](int depth, Json::parse_event_t, Json&) {
      if (depth > kDepth) refuse_words("an object with plans", "deeper nesting");
      return true;
    };
    try {
      return Json::parse(text, not_deep);
    } catch (const Json::parse_error& error) {
      refuse_words("JSON", str("something else at byte ", error.byte));
    } catch (const Json::exception&) {
      refuse_words("JSON", "a number beyond all bounds");
    }
  }

  const Json& member(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) refuse_words(str("\"", key, "\""), "none");
    return *found;
  }

  std::string text_in(const Json& value, const char* what) const {
    if (!value.is_string() || value.get_ref<const std::string&>().size() > kLongest) {
      refuse(str("a text of at most ", kLongest, " bytes as ", what), value);
    }
    return value.get<std::string>();
  }

  const std::string& file_;
};

}  // namespace

std::string to_json(const PlanFile& plans) {
  Json json;
  json["format"] = kFormat;
  json["library"] = plans.origin.library;
  json["device"] = plans.origin.device;
  json["plans"] = Json::object();
  for (const auto& [problem, plan] : plans.plans) json["plans"][problem] = plan;
  return json.dump(1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

PlanFile plan_file_from_json(const std::string& text, const std::string& file) {
  return Reader(file).read(text);
}

PlanFile read_plan_file(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kLargest);
  return plan_file_from_json({bytes.begin(), bytes.end()}, path);
}

}  // namespace lockstep

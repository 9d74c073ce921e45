#include "lockstep/report/plan_names.h"

#include "lockstep/base/error.h"
#include "lockstep/io/file.h"

#include <nlohmann/json.hpp>

namespace lockstep::report {

std::vector<PlannedBucket> read_plan_names(const std::string& directory) {
  constexpr uint64_t kMostBytes = 64 << 20;
  std::vector<PlannedBucket> plan;
  try {
    const std::vector<uint8_t> bytes = read_file(directory + "/bucket_plan.json", kMostBytes);
    const auto json = nlohmann::json::parse(bytes);
    for (const auto& bucket : json.at("buckets")) {
      plan.push_back(
          {bucket.value("bytes", 0.0), bucket.at("params").get<std::vector<std::string>>()});
    }
    return plan;
  } catch (const IoError&) {
    return {};
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

}  // namespace lockstep::report

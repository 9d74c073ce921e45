// Ring logs of failed runs: each is refused with IoError, or read and diagnosed, alone and beside
// itself as another rank's.

// sources: report/ring_log.cc report/diagnosis.cc io/file.cc

#include "lockstep/base/error.h"
#include "lockstep/report/diagnosis.h"

#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep::report;
  try {
    const std::string text(reinterpret_cast<const char*>(data), size);
    RingLogs run{.directory = "fuzz", .world_size = 3, .logs = {}, .missing = {2}};
    run.logs.push_back(parse_ring_log(text, "fuzz"));
    diagnosis_page(run);
    run.logs.push_back(run.logs[0]);
    run.logs[1].rank = run.logs[0].rank + 1;
    if (!run.logs[1].groups.empty()) run.logs[1].groups.pop_back();
    diagnosis_page(run);
  } catch (const lockstep::IoError&) {
  }
  return 0;
}

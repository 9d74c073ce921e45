#include "lockstep/train/step_log.h"

#include "lockstep/base/log.h"
#include "lockstep/base/str.h"
#include "lockstep/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr int64_t kSteps = 16384, kIntervals = 256, kSampled = 32;  // budgets of keeps_line
constexpr size_t kMostSteps = 64;  // of an interval, for the medians of its buckets

/// To a microsecond, without needless zeros.
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", value);
  std::string shorter = text;
  shorter.erase(shorter.find_last_not_of('0') + 1);
  if (shorter.back() == '.') shorter.pop_back();
  return shorter;
}

std::string row(const StepRecord& step) {
  std::string text = str("[", step.step, ",", number(step.wall));
  for (const double part : step.parts) text += "," + number(part);
  for (const double value : {step.other, step.hidden, step.bytes}) text += "," + number(value);
  return text + "]\n";
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

/// The lines of an earlier start of this run that lie before `start`.
std::string kept_lines(const std::string& path, int64_t start) {
  std::string kept;
  if (start == 0) return kept;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const Json step = json.is_object()                   ? json.value("step", Json())
                      : json.is_array() && !json.empty() ? json[0]
                                                         : Json();
    // An end comes after its last step, so one at `start` is that of a run that goes on.
    if (step.is_number_integer() && step.get<int64_t>() < start) kept += line + "\n";
  }
  return kept;
}

}  // namespace

std::string step_log_file(const std::string& directory, int rank) {
  return str(directory, "/steps.rank", rank, ".jsonl");
}

bool keeps_line(int64_t index, int64_t budget) {
  const auto times = static_cast<uint64_t>(std::max<int64_t>(index, 0) / budget);
  return index % static_cast<int64_t>(std::max<uint64_t>(std::bit_floor(times), 1)) == 0;
}

StepLog::StepLog(const Options& options)
    : path_(step_log_file(options.directory, options.rank)), next_step_(options.start) {
  // Another machine's ranks may not share the directory.
  std::error_code ignored;
  std::filesystem::create_directories(options.directory, ignored);
  try {
    write_file_atomically(path_, kept_lines(path_, options.start));
  } catch (const std::exception& error) {
    give_up(error.what());
    return;
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) {
    give_up(str(path_, ": cannot be opened: ", std::strerror(errno)));
    return;
  }
  const Json json{{"kind", "start"},
                  {"format", kFormat},
                  {"step", options.start},
                  {"rank", options.rank},
                  {"world_size", options.world_size},
                  {"host", host_name()},
                  {"clock_offset_ns", options.clock.offset_ns},
                  {"clock_error_ns", options.clock.error_ns},
                  {"at_ns", options.clock.at_ns}};
  text_ = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  write();
}

StepLog::~StepLog() {
  if (fd_ >= 0) ::close(fd_);
}

void StepLog::add(const StepSummary& summary, const StepEvents& events) {
  next_step_ = summary.step + 1;
  if (fd_ < 0) return;
  if (keeps_line(summary.step, kSteps)) steps_.push_back(record_of(summary));
  add_buckets(events);
}

void StepLog::add_buckets(const StepEvents& events) {
  bucket_records(events, latest_);
  if (latest_.size() != bucket_count_) {  // planned anew
    bucket_count_ = latest_.size();
    bucket_steps_ = 0;
    buckets_.resize(bucket_count_ * kMostSteps);
  }
  const size_t at = bucket_steps_++ % kMostSteps;
  std::copy(latest_.begin(), latest_.end(),
            buckets_.begin() + static_cast<std::ptrdiff_t>(at * bucket_count_));
}

void StepLog::end_interval(int64_t interval, const std::vector<StepEvents>& last) {
  if (fd_ < 0) return;
  for (const StepRecord& step : steps_) text_ += row(step);
  if (keeps_line(interval, kIntervals)) append_buckets();
  if (keeps_line(interval, kSampled)) {
    for (const StepEvents& step : last) append_events(step);
  }
  steps_.clear();
  bucket_steps_ = 0;
  write();
}

void StepLog::append_buckets() {
  const size_t steps = std::min(bucket_steps_, kMostSteps);
  if (steps == 0 || bucket_count_ == 0) return;
  text_ += str(R"({"kind":"buckets","step":)", next_step_ - 1, R"(,"rows":[)");
  std::vector<double> values;
  for (size_t b = 0; b < bucket_count_; ++b) {
    text_ += b == 0 ? "[" : ",[";
    for (const auto member : {&BucketRecord::ready, &BucketRecord::launch, &BucketRecord::start,
                              &BucketRecord::finish, &BucketRecord::wait, &BucketRecord::bytes}) {
      values.clear();
      for (size_t s = 0; s < steps; ++s) values.push_back(buckets_[s * bucket_count_ + b].*member);
      text_ += (member == &BucketRecord::ready ? "" : ",") + number(median(values));
    }
    text_ += "]";
  }
  text_ += "]}\n";
}

void StepLog::append_events(const StepEvents& step) {
  if (step.step <= events_written_) return;
  events_written_ = step.step;
  text_ += str(R"({"kind":"events","step":)", step.step, R"(,"begin_ns":)", step.begin_ns,
               R"(,"end_ns":)", step.end_ns, R"(,"rows":[)");
  const char* separator = "";
  for (const auto& [span, thread] : step.events) {
    text_ +=
        str(separator, "[\"", name_of(span.activity), "\",", thread, ",", span.id, ",",
            span.begin_ns - step.begin_ns, ",", span.end_ns - step.begin_ns, ",", span.bytes, "]");
    separator = ",";
  }
  text_ += "]}\n";
}

void StepLog::end(const ClockOffset& clock) {
  if (fd_ < 0) return;
  text_ += str(R"({"kind":"end","step":)", next_step_, R"(,"clock_offset_ns":)", clock.offset_ns,
               R"(,"clock_error_ns":)", clock.error_ns, R"(,"at_ns":)", clock.at_ns, "}\n");
  write();
}

void StepLog::write() {
  const ssize_t written = ::write(fd_, text_.data(), text_.size());
  if (written != static_cast<ssize_t>(text_.size())) {
    give_up(str(path_, ": cannot be written: ",
                written < 0 ? std::strerror(errno) : "no space left on device"));
  }
  text_.clear();
}

void StepLog::give_up(const std::string& why) {
  log_warning(str(why, "; the run goes on, but lockstep report will lack it"));
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace lockstep

// TensorBoard's event files: TFRecords (length, masked CRC-32C of it, payload, masked CRC-32C of
// that; all little-endian), each an Event of TensorFlow's event.proto. The few messages that
// scalars need are written here field by field.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// CRC-32C (Castagnoli, RFC 3720 appendix B.4) of the bytes.
uint32_t crc32c(std::string_view bytes);

/// `payload` with the frame of a TFRecord around it.
std::string tf_record(std::string_view payload);

/// One value of a curve; `tag` is the curve's name, "train/loss".
struct EventScalar {
  std::string tag;
  float value = 0;
};

/// Records for an event file; `wall_time` is in seconds since 1970. The first of a file:
std::string event_version(double wall_time);
/// A session starts at `step`: readers forget what this directory said of that step and later ones.
std::string event_start(double wall_time, int64_t step);
std::string event_scalars(double wall_time, int64_t step, std::span<const EventScalar> scalars);

/// A file that records are appended to, each in one write: a killed process leaves whole ones.
class EventFile {
 public:
  /// Makes it, or empties it. Throws IoError.
  explicit EventFile(std::string path);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  const std::string& path() const { return path_; }
  /// One record or several. Throws IoError.
  void append(std::string_view records);

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace lockstep

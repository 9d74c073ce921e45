// The file by which rank 0 tells where its store is (file:// rendezvous).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::comm {

struct MeetingPlace {
  std::string host;
  uint16_t port = 0;
  std::string token;
  std::string job;  // may be empty
};

/// The file, for as long as this lives, unless another job has replaced it.
class MeetingNote {
 public:
  /// Replaces whatever file is there, at once: a reader sees the old one or the whole new one.
  /// Throws IoError if it cannot be written.
  MeetingNote(std::string path, const MeetingPlace& place);
  ~MeetingNote();
  MeetingNote(const MeetingNote&) = delete;
  MeetingNote& operator=(const MeetingNote&) = delete;

 private:
  std::string path_;
  uint64_t file_ = 0;  // its number in the file system
};

/// Nothing if there is no such file, or if it says something else. Throws IoError if it cannot be
/// read, others may read it, or it is another user's.
std::optional<MeetingPlace> read_meeting_note(const std::string& path);

}  // namespace lockstep::comm

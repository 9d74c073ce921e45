#include "lockstep/io/event_file.h"

#include "lockstep/base/error.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  constexpr uint32_t kReversedPolynomial = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

template <class T>
void put_little_endian(std::string& to, T value) {
  for (size_t i = 0; i < sizeof value; ++i) to += static_cast<char>((value >> (8 * i)) & 0xff);
}

/// A CRC of bytes that hold their own CRC would be weak, so records hold it rotated and shifted.
uint32_t masked(uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

// Protocol buffers' wire format: a field begins with its number and how its value is laid out.
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void put_key(std::string& to, uint32_t field, WireType type) { put_varint(to, field << 3 | type); }

void put_bytes(std::string& to, uint32_t field, std::string_view bytes) {
  put_key(to, field, kBytes);
  put_varint(to, bytes.size());
  to += bytes;
}

// Field numbers of event.proto and summary.proto.
constexpr uint32_t kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5,
                   kEventSessionLog = 7;
constexpr uint32_t kSummaryValue = 1, kValueTag = 1, kValueSimple = 2;
constexpr uint32_t kSessionStatus = 1, kSessionStart = 1;

/// What every event begins with. Zero is not written: it is what an absent field means.
std::string event(double wall_time, int64_t step) {
  std::string bytes;
  put_key(bytes, kEventWallTime, kFixed64);
  put_little_endian(bytes, std::bit_cast<uint64_t>(wall_time));
  if (step != 0) {
    put_key(bytes, kEventStep, kVarint);
    put_varint(bytes, static_cast<uint64_t>(step));
  }
  return bytes;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

std::string tf_record(std::string_view payload) {
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(payload.size()));
  put_little_endian(record, masked(crc32c(record)));
  record += payload;
  put_little_endian(record, masked(crc32c(payload)));
  return record;
}

std::string event_version(double wall_time) {
  std::string bytes = event(wall_time, 0);
  put_bytes(bytes, kEventFileVersion, "brain.Event:2");
  return tf_record(bytes);
}

std::string event_start(double wall_time, int64_t step) {
  std::string session;
  put_key(session, kSessionStatus, kVarint);
  put_varint(session, kSessionStart);
  std::string bytes = event(wall_time, step);
  put_bytes(bytes, kEventSessionLog, session);
  return tf_record(bytes);
}

std::string event_scalars(double wall_time, int64_t step, std::span<const EventScalar> scalars) {
  std::string summary;
  for (const EventScalar& scalar : scalars) {
    std::string value;
    put_bytes(value, kValueTag, scalar.tag);
    put_key(value, kValueSimple, kFixed32);
    put_little_endian(value, std::bit_cast<uint32_t>(scalar.value));
    put_bytes(summary, kSummaryValue, value);
  }
  std::string bytes = event(wall_time, step);
  put_bytes(bytes, kEventSummary, summary);
  return tf_record(bytes);
}

EventFile::EventFile(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) throw IoError(str(path_, ": cannot be made: ", std::strerror(errno)));
}

EventFile::~EventFile() { ::close(fd_); }

void EventFile::append(std::string_view records) {
  const ssize_t written = ::write(fd_, records.data(), records.size());
  if (written != static_cast<ssize_t>(records.size())) {
    throw IoError(str(path_, ": cannot be written: ",
                      written < 0 ? std::strerror(errno) : "no space left on device"));
  }
}

}  // namespace lockstep

#include "lockstep/io/gzip.h"

#include "lockstep/base/error.h"

#include <zlib.h>
#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace lockstep {

struct GzipReader::State {
  z_stream stream{};
  std::span<const uint8_t> rest;  // what the stream has not been shown
  bool ended = false;
};

bool is_gzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

GzipReader::GzipReader(std::span<const uint8_t> bytes, std::string name)
    : state_(std::make_unique<State>()), name_(std::move(name)) {
  state_->rest = bytes;
  constexpr int kGzipOnly = 16;  // zlib's flag beside the window's size
  if (inflateInit2(&state_->stream, MAX_WBITS + kGzipOnly) != Z_OK) throw std::bad_alloc();
}

GzipReader::~GzipReader() { inflateEnd(&state_->stream); }

size_t GzipReader::read(uint8_t* to, size_t count) {
  constexpr size_t kMost = std::numeric_limits<uInt>::max();
  z_stream& stream = state_->stream;
  size_t done = 0;
  while (done < count && !state_->ended) {
    if (stream.avail_in == 0) {
      const size_t shown = std::min(state_->rest.size(), kMost);
      if (shown == 0) throw IoError(str("gunzip: ", name_, ": the file is cut short"));
      // zlib's interface predates const; it does not write there.
      stream.next_in = const_cast<Bytef*>(state_->rest.data());
      stream.avail_in = static_cast<uInt>(shown);
      state_->rest = state_->rest.subspan(shown);
    }
    const size_t asked = std::min(count - done, kMost);
    stream.next_out = to + done;
    stream.avail_out = static_cast<uInt>(asked);
    const int result = inflate(&stream, Z_NO_FLUSH);
    done += asked - stream.avail_out;
    if (result == Z_STREAM_END) {
      state_->ended = true;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      throw IoError(str("gunzip: ", name_, ": the compressed data is damaged (",
                        stream.msg != nullptr ? stream.msg : zError(result), ')'));
    }
  }
  return done;
}

void GzipReader::expect_end() {
  uint8_t extra = 0;
  if (read(&extra, 1) != 0) {
    throw IoError(str("gunzip: ", name_, ": holds more bytes than its header announces"));
  }
  if (state_->stream.avail_in != 0 || !state_->rest.empty()) {
    throw IoError(str("gunzip: ", name_, ": bytes follow the end of the compressed data"));
  }
}

}  // namespace lockstep

// Compression for tests; the library only decompresses. Needs @zlib.
#pragma once

#include <zlib.h>
#include <stdexcept>
#include <string>

namespace lockstep::testing {

inline std::string gzip(const std::string& bytes) {
  z_stream stream{};
  constexpr int kGzip = 16;
  deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw std::runtime_error("gzip: deflate failed");
  return out;
}

}  // namespace lockstep::testing

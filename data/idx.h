// The IDX format of the MNIST family (yann.lecun.com/exdb/mnist, "File formats"): two zero bytes,
// the element type, the number of dimensions, the dimensions as big-endian 32-bit words, the
// elements.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct IdxArray {
  std::vector<int64_t> dims;  // one to four
  std::vector<uint8_t> values;
};

/// The contents of an IDX file of unsigned bytes (type 0x08), plain or gzipped. What the header
/// announces must be what is there: a plain file is compared before anything is allocated; a
/// gzipped one may announce at most what deflate could hold in its length (1,032 times), and no
/// more than `max_bytes`. IoError names `name`, what was wanted and what was got.
IdxArray parse_idx(std::span<const uint8_t> bytes, const std::string& name,
                   uint64_t max_bytes = uint64_t{1} << 32);

/// The file at `path`, else at `path`.gz, parsed.
IdxArray read_idx(const std::string& path);

}  // namespace lockstep

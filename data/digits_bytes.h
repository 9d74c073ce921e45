// The file data/digits/digits.csv.gz, compiled in by a genrule of data/BUILD.bazel.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep {

extern const uint8_t kDigitsBytes[];
extern const size_t kDigitsSize;

}  // namespace lockstep

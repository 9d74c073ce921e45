// The data sets that come with the library.
#pragma once

#include "lockstep/data/dataset.h"

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

enum class Split { kTrain, kTest };

/// 1,797 handwritten digits of 8 x 8 x 1 that are compiled in; data/digits/README.md gives source,
/// licence and split.
std::shared_ptr<const Dataset> digits(Split split);

/// 28 x 28 x 1 images in 10 classes, from the IDX files
/// {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or with .gz, in `directory`. Throws IoError
/// when a file is missing or malformed (data/idx.h).
std::shared_ptr<const Dataset> mnist(const std::string& directory, Split split);
/// As mnist, of Fashion-MNIST (Xiao et al. 2017); the default is where Debian's
/// dataset-fashion-mnist puts it.
std::shared_ptr<const Dataset> fashion_mnist(
    Split split, const std::string& directory = "/usr/share/datasets/fashion-mnist");

struct SyntheticOptions {
  int64_t size = 1024;
  int64_t height = 32;
  int64_t width = 32;
  int64_t channels = 3;
  int64_t classes = 10;
  uint64_t seed = 0;  // of the classes' patterns: the same for both splits of a data set
  Split split = Split::kTrain;
  float noise = 1;  // its standard deviation; the patterns' is 1
};

/// Images that are computed when asked for: a blocky pattern for each class plus noise of each
/// sample's own, a pure function of seed, split and index; label = index % classes. Learnable, and
/// as large as wanted. Throws ArgumentError for sizes below 1.
std::shared_ptr<const Dataset> synthetic(const SyntheticOptions& options);

}  // namespace lockstep

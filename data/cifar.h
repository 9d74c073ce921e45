// The binary versions of CIFAR-10 and CIFAR-100 (Krizhevsky 2009; cs.toronto.edu/~kriz/cifar.html):
// records of one label byte (CIFAR-100: a coarse and a fine one) and 32 x 32 pixels in three
// planes.
#pragma once

#include "lockstep/data/datasets.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

enum class CifarKind { k10, k100 };

struct CifarRecords {
  std::vector<uint8_t> pixels;  // HWC
  std::vector<uint8_t> labels;  // CIFAR-100: the fine ones
};

/// Appends the records of one file to `to`. IoError names `name` when `bytes` is not a whole number
/// of records, at least one, or a label is out of range.
void append_cifar(std::span<const uint8_t> bytes, CifarKind kind, const std::string& name,
                  CifarRecords& to);

/// Class names, one a line, of which there must be `classes`; blank lines are passed over. IoError
/// names `name`.
std::vector<std::string> parse_class_names(std::span<const uint8_t> text, size_t classes,
                                           const std::string& name);

/// `directory` is the folder of the files (cifar-10-batches-bin, cifar-100-binary) or the one that
/// holds it. Class names come from batches.meta.txt or fine_label_names.txt, when that is there.
/// Throws IoError when a file is missing or malformed; sizes are checked before a file is read.
std::shared_ptr<const Dataset> cifar(CifarKind kind, const std::string& directory, Split split);

}  // namespace lockstep

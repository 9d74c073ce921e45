// Data sets by their names on a command line.
#pragma once

#include "lockstep/data/datasets.h"
#include "lockstep/data/image_source.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// For "folder" and "packed"; the other sets take no notice.
struct OpenOptions {
  ImageDatasetOptions images = {};  // `augment` holds for the training split alone
  double val_fraction = 0;          // "folder": as in ImageFolderOptions
  bool warn = true;                 // likewise
};

/// "digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "folder", "packed" or "synthetic"
/// (whose options are the defaults). `directory` empty: the default of the set. Throws
/// ArgumentError for an unknown name, or when a set without a default is given none.
std::shared_ptr<const Dataset> open_dataset(const std::string& name, const std::string& directory,
                                            Split split, const OpenOptions& options = {});

const std::vector<std::string>& dataset_names();
/// What the directory of a set without a default must hold, for a message; else empty.
std::string wanted_directory(const std::string& name);
/// Whether it is a set of encoded images, which the image options are about.
bool takes_image_options(const std::string& name);

}  // namespace lockstep

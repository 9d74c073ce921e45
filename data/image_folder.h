// Image files in folders, a sub-folder for each class.
#pragma once

#include "lockstep/data/datasets.h"
#include "lockstep/data/image_source.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep {

struct ImageFolderOptions {
  std::string directory;
  Split split = Split::kTrain;
  /// The share of each class's images that is for evaluation, where `directory` has no train/.
  double val_fraction = 0;
  /// Whether classes without images are named in the log.
  bool warn = true;
};

/// Two layouts:
/// - directory/train/CLASS/IMAGE and directory/val/CLASS/IMAGE (test/ where there is no val/);
/// - directory/CLASS/IMAGE, cut in two by val_fraction: in each class the share of files with the
///   smallest hash of "CLASS/IMAGE", so that a file stays in its part when others come and go.
///
/// Classes are the sub-folders of train/ or directory in byte order, as numbers from 0; those
/// without images keep their number and are a warning. Images are the files in a class's folder
/// itself that end in .jpg, .jpeg or .png, in either case; names that begin with a dot and other
/// files are passed over. Within a class the order is that of the names' bytes.
///
/// Throws IoError when there is no such folder, no class, no image in the split, val/ has a class
/// that train/ has not, or the second layout has no val_fraction in (0, 1).
std::shared_ptr<const ImageSource> image_folder(const ImageFolderOptions& options);

}  // namespace lockstep

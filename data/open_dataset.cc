#include "lockstep/base/error.h"
#include "lockstep/data/datasets.h"

namespace lockstep {

const std::vector<std::string>& dataset_names() {
  static const std::vector<std::string> names = {"digits", "mnist", "fashion-mnist", "synthetic"};
  return names;
}

std::shared_ptr<const Dataset> open_dataset(const std::string& name, const std::string& directory,
                                            Split split) {
  if (name == "digits") return digits(split);
  if (name == "mnist") {
    check(!directory.empty(), "open_dataset: mnist wants the directory of its four IDX files");
    return mnist(directory, split);
  }
  if (name == "fashion-mnist") {
    return directory.empty() ? fashion_mnist(split) : fashion_mnist(split, directory);
  }
  if (name == "synthetic") return synthetic({.split = split});
  throw ArgumentError(
      str("open_dataset: wanted digits, mnist, fashion-mnist or synthetic, got ", name));
}

}  // namespace lockstep

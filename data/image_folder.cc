#include "lockstep/data/image_folder.h"

#include "lockstep/base/fnv.h"
#include "lockstep/base/log.h"
#include "lockstep/io/file.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;

struct File {
  int32_t label;
  std::string name;  // in the class's folder
};

class ImageFolder final : public ImageSource {
 public:
  ImageFolder(fs::path root, std::vector<std::string> classes, std::vector<File> files)
      : root_(std::move(root)), classes_(std::move(classes)), files_(std::move(files)) {}

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  const std::vector<std::string>& class_names() const override { return classes_; }
  int64_t label(int64_t index) const override { return file(index).label; }
  std::string name(int64_t index) const override {
    const File& f = file(index);
    return (root_ / classes_[static_cast<size_t>(f.label)] / f.name).string();
  }
  std::span<const uint8_t> bytes(int64_t index, std::vector<uint8_t>& scratch) const override {
    const InputFile input(name(index));
    if (input.size() > kMaxFileBytes) {
      throw BadImage(str("image_folder: ", input.path(), ": wanted at most ", kMaxFileBytes,
                         " bytes, got ", input.size()));
    }
    scratch.resize(input.size());
    input.read(0, scratch.data(), scratch.size());
    return scratch;
  }

 private:
  const File& file(int64_t index) const { return files_.at(static_cast<size_t>(index)); }

  fs::path root_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

/// The names in `folder` that `wanted` holds for, sorted.
template <class Wanted>
std::vector<std::string> list(const fs::path& folder, const Wanted& wanted) {
  std::vector<std::string> names;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with('.') && wanted(entry)) names.push_back(name);
    }
  } catch (const fs::filesystem_error& error) {
    throw IoError(str("image_folder: cannot read ", folder.string(), ": ", error.code().message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> list_classes(const fs::path& folder) {
  std::vector<std::string> classes = list(folder, [](const fs::directory_entry& entry) {
    std::error_code broken_link;
    return entry.is_directory(broken_link);
  });
  if (classes.empty()) {
    throw IoError(
        str("image_folder: ", folder.string(), ": wanted a sub-folder for each class, got none"));
  }
  return classes;
}

std::vector<std::string> list_images(const fs::path& folder) {
  return list(folder, [](const fs::directory_entry& entry) {
    std::string extension = entry.path().extension().string();
    std::transform(extension.begin(), extension.end(), extension.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::error_code broken_link;
    return (extension == ".jpg" || extension == ".jpeg" || extension == ".png") &&
           entry.is_regular_file(broken_link);
  });
}

/// Mixed once more, because images are ordered by it.
uint64_t hash(std::string_view text) {
  uint64_t value = fnv1a(text);
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  return value ^ value >> 32;
}

/// The part of a class's images that belongs to `split`, in order.
std::vector<std::string> part(std::vector<std::string> images, const std::string& name,
                              double val_fraction, Split split) {
  std::vector<std::pair<uint64_t, std::string>> keyed;
  for (std::string& image : images) {
    const uint64_t key = hash(str(name, '/', image));
    keyed.emplace_back(key, std::move(image));
  }
  std::sort(keyed.begin(), keyed.end());
  const auto count =
      static_cast<size_t>(std::nearbyint(val_fraction * static_cast<double>(keyed.size())));
  std::vector<std::string> chosen;
  for (size_t i = 0; i < keyed.size(); ++i) {
    if ((i < count) == (split == Split::kTest)) chosen.push_back(std::move(keyed[i].second));
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// Where a split's classes lie.
struct Layout {
  fs::path folder;
  bool cut = false;  // both splits lie there
};

Layout find_layout(const ImageFolderOptions& options) {
  const fs::path root = options.directory;
  const auto is_folder = [](const fs::path& path) {
    std::error_code ignored;
    return fs::is_directory(path, ignored);
  };
  if (!is_folder(root)) throw IoError(str("image_folder: no such folder: ", root.string()));
  if (is_folder(root / "train")) {
    check(options.val_fraction == 0, "image_folder: ", root.string(),
          " has a train/ of its own; it takes no --val-fraction");
    if (options.split == Split::kTrain) return {root / "train"};
    for (const char* name : {"val", "test"}) {
      if (is_folder(root / name)) return {root / name};
    }
    throw IoError(str("image_folder: ", root.string(), " has train/, but neither val/ nor test/"));
  }
  check(options.val_fraction > 0 && options.val_fraction < 1, "image_folder: ", root.string(),
        " has no train/; wanted --val-fraction, a share between 0 and 1 of its images for "
        "evaluation, got ",
        options.val_fraction);
  return {root, true};
}

}  // namespace

std::shared_ptr<const ImageSource> image_folder(const ImageFolderOptions& options) {
  const Layout layout = find_layout(options);
  const std::vector<std::string> here = list_classes(layout.folder);
  const std::vector<std::string> classes =
      layout.cut || options.split == Split::kTrain
          ? here
          : list_classes(fs::path(options.directory) / "train");
  std::vector<File> files;
  for (const std::string& name : here) {
    const auto known = std::lower_bound(classes.begin(), classes.end(), name);
    if (known == classes.end() || *known != name) {
      throw IoError(
          str("image_folder: ", (layout.folder / name).string(), ": train/ has no such class"));
    }
    std::vector<std::string> images = list_images(layout.folder / name);
    // Of a folder that is cut in two, once.
    if (images.empty() && options.warn && (!layout.cut || options.split == Split::kTrain)) {
      log_warning(
          str("image_folder: class '", name, "' has no images: ", (layout.folder / name).string()));
    }
    if (layout.cut) images = part(std::move(images), name, options.val_fraction, options.split);
    const auto label = static_cast<int32_t>(known - classes.begin());
    for (std::string& image : images) files.push_back({label, std::move(image)});
  }
  if (files.empty()) {
    throw IoError(str("image_folder: ", layout.folder.string(), ": no images (.jpg, .jpeg, .png) ",
                      options.split == Split::kTrain ? "for training" : "for evaluation"));
  }
  return std::make_shared<ImageFolder>(layout.folder, classes, std::move(files));
}

}  // namespace lockstep

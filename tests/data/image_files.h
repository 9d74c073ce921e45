// Folders of small images for tests.
#pragma once

#include "lockstep/io/file.h"
#include "lockstep/tests/support/temp_dir.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::testing {

inline std::string golden_image(const std::string& name) {
  return read_text("tests/golden/images/" + name);
}

/// Writes `bytes` to `path` and makes the folders that it wants.
inline void write_image(const std::string& path, std::string_view bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  write_file(path, bytes);
}

/// rgb.png with another size in its header.
inline std::string png_of_size(uint32_t width, uint32_t height) {
  std::string png = golden_image("rgb.png");
  for (size_t i = 0; i < 4; ++i) {
    png[16 + i] = static_cast<char>(width >> (24 - 8 * i));
    png[20 + i] = static_cast<char>(height >> (24 - 8 * i));
  }
  return png;
}

/// train/ and val/ with classes cat and dog: `count` images each in train, two in val.
inline void write_good_folder(const std::string& root, int count) {
  const std::vector<std::string> files = {"baseline.jpg", "rgb.png", "grey.jpg", "palette.png",
                                          "full.jpg"};
  for (const std::string name : {"cat", "dog"}) {
    for (int i = 0; i < count + 2; ++i) {
      const std::string& file = files[static_cast<size_t>(i + (name == "dog")) % files.size()];
      const std::filesystem::path folder =
          std::filesystem::path(root) / (i < count ? "train" : "val") / name;
      const std::string number = std::to_string(100 + i);
      write_image((folder / number).string() + file.substr(file.find('.')), golden_image(file));
    }
  }
}

}  // namespace lockstep::testing

// make_fashion_folder DIR TRAIN VAL [SIDE]: writes Fashion-MNIST as an image folder, train/CLASS/
// and val/CLASS/, half PNG, half JPEG, enlarged to SIDE (64) pixels, RGB: real images with
// everything that reading files costs.
#include "lockstep/base/error.h"
#include "lockstep/data/datasets.h"
#include "lockstep/data/image/resize.h"

#include <jpeglib.h>
#include <png.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace lockstep;

constexpr const char* kClasses[] = {"t-shirt", "trouser", "pullover", "dress", "coat",
                                    "sandal",  "shirt",   "sneaker",  "bag",   "boot"};

void write_png(const std::string& path, const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&png, path.c_str(), 0, image.pixels.data(), 0, nullptr) == 0)
    throw IoError(path + ": " + png.message);
}

void write_jpeg(const std::string& path, const Image& image) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"),
                                                             std::fclose);
  if (file == nullptr) throw IoError(path + ": cannot be written");
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);  // prints and exits, which is all that is wanted here
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file.get());
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 90, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (int64_t y = 0; y < image.height; ++y) {
    auto* row = const_cast<JSAMPROW>(image.at(y, 0));
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
}

void write_split(const std::filesystem::path& folder, Split split, int64_t count, int64_t side) {
  const auto data = fashion_mnist(split);
  for (const char* name : kClasses) std::filesystem::create_directories(folder / name);
  const ImageFormat format = data->format();
  std::vector<float> values(static_cast<size_t>(format.numel()));
  Image small{format.height, format.width, std::vector<uint8_t>(values.size() * 3)};
  Image large{side, side, std::vector<uint8_t>(static_cast<size_t>(side * side * 3))};
  for (int64_t i = 0; i < std::min(count, data->size()); ++i) {
    const int64_t label = data->get(i, values);
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    for (size_t p = 0; p < small.pixels.size(); ++p) {
      small.pixels[p] = static_cast<uint8_t>(
          std::nearbyint((values[p / 3] - *low) / std::max(*high - *low, 1e-6f) * 255));
    }
    resize_bilinear(small, {.height = small.height, .width = small.width}, side, side,
                    {.height = side, .width = side}, large.pixels.data());
    const std::string path = (folder / kClasses[label] / std::to_string(100000 + i)).string();
    if (i % 2 == 0) {
      write_png(path + ".png", large);
    } else {
      write_jpeg(path + ".jpg", large);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    std::fprintf(stderr, "usage: make_fashion_folder DIR TRAIN VAL [SIDE]\n");
    return 2;
  }
  try {
    const std::filesystem::path root = argv[1];
    const int64_t side = argc == 5 ? std::atoll(argv[4]) : 64;
    write_split(root / "train", Split::kTrain, std::atoll(argv[2]), side);
    write_split(root / "val", Split::kTest, std::atoll(argv[3]), side);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_fashion_folder: %s\n", error.what());
    return 1;
  }
  return 0;
}

// What a trained ResNet sees in image files: a command of more than one program.
#pragma once

#include "lockstep/train/device_flag.h"

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

struct PredictFlags {
  std::string checkpoint;
  std::vector<std::string> images;
  std::string data_dir;
  int64_t top = 5;
  DeviceFlag device;
};

/// `command` is how the program calls it, for the example: "lockstep predict".
void add_predict_flags(CLI::App& app, const std::string& command, PredictFlags& flags);

/// Prints the most likely classes of each image. Returns the exit code: 1 when an image could not
/// be decoded, which is told after `program`'s name, and the others are done. Throws IoError and
/// ArgumentError.
int predict(const PredictFlags& flags, const char* program);

}  // namespace lockstep

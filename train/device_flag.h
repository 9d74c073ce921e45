// --device: where a program's model is.
#pragma once

#include "lockstep/tensor/device.h"

#include <string>

namespace CLI {
class App;
}

namespace lockstep {

/// "cpu" or "cuda".
struct DeviceFlag {
  std::string device = "cpu";
};

void add_device_flag(CLI::App& app, DeviceFlag& flag);

/// Whether it is there or not.
Device named_device(const DeviceFlag& flag);
/// Throws UnsupportedError when this program or this machine lacks the device.
Device device_of(const DeviceFlag& flag);

}  // namespace lockstep

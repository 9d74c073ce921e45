// --device: where a program's model is; --tf32: how its products are rounded there.
#pragma once

#include "lockstep/tensor/device.h"

#include <string>

namespace CLI {
class App;
}

namespace lockstep {

struct DeviceFlag {
  std::string device = "cpu";  // or "cuda"
  bool tf32 = false;
};

void add_device_flag(CLI::App& app, DeviceFlag& flag);

/// After parsing: what is wrong with the flags together, for a usage error; empty: nothing.
std::string wrong_device_flags(const DeviceFlag& flag);

/// Whether it is there or not.
Device named_device(const DeviceFlag& flag);
/// Throws UnsupportedError when this program or this machine lacks the device.
Device device_of(const DeviceFlag& flag);
/// The same, and from now on the process's products are rounded as --tf32 says (tensor/tf32.h).
Device use_device(const DeviceFlag& flag);

}  // namespace lockstep

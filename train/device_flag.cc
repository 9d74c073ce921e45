#include "lockstep/train/device_flag.h"

#include "lockstep/tensor/memory.h"

#include <CLI/CLI.hpp>

namespace lockstep {

void add_device_flag(CLI::App& app, DeviceFlag& flag) {
  app.add_option("--device", flag.device, "Where the model is: cpu, or cuda for an NVIDIA GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}));
}

Device named_device(const DeviceFlag& flag) {
  return flag.device == "cuda" ? Device::cuda() : Device::cpu();
}

Device device_of(const DeviceFlag& flag) {
  const Device device = named_device(flag);
  device_memory(device);
  return device;
}

}  // namespace lockstep

#include "lockstep/train/device_flag.h"

#include "lockstep/tensor/memory.h"

#include <CLI/CLI.hpp>

namespace lockstep {

void add_device_flag(CLI::App& app, DeviceFlag& flag) {
  app.add_option("--device", flag.device, "Where the model is: cpu, or cuda for an NVIDIA GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}));
}

Device device_of(const DeviceFlag& flag) {
  const Device device = flag.device == "cuda" ? Device::cuda() : Device::cpu();
  device_memory(device);
  return device;
}

}  // namespace lockstep

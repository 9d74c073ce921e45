#include "lockstep/train/device_flag.h"

#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/tf32.h"

#include <CLI/CLI.hpp>

namespace lockstep {

void add_device_flag(CLI::App& app, DeviceFlag& flag) {
  app.add_option("--device", flag.device, "Where the model is: cpu, or cuda for an NVIDIA GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag("--tf32", flag.tf32,
               "Let the GPU round the operands of f32 products and convolutions to TF32, with 10 "
               "bits of mantissa, which its tensor cores multiply faster");
}

std::string wrong_device_flags(const DeviceFlag& flag) {
  return flag.tf32 && named_device(flag).is_cpu() ? "--tf32 is for a GPU; it wants --device cuda"
                                                  : "";
}

Device named_device(const DeviceFlag& flag) {
  return flag.device == "cuda" ? Device::cuda() : Device::cpu();
}

Device device_of(const DeviceFlag& flag) {
  const Device device = named_device(flag);
  device_memory(device);
  return device;
}

Device use_device(const DeviceFlag& flag) {
  const Device device = device_of(flag);
  set_allow_tf32(flag.tf32);
  return device;
}

}  // namespace lockstep

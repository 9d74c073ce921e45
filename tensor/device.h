// Where a tensor's memory lies.
#pragma once

#include <string>

namespace lockstep {

enum class DeviceType { kCpu, kCuda };

struct Device {
  DeviceType type = DeviceType::kCpu;
  int index = 0;

  static Device cpu() { return {}; }
  static Device cuda(int index = 0) { return {DeviceType::kCuda, index}; }
  bool is_cpu() const { return type == DeviceType::kCpu; }
  bool operator==(const Device&) const = default;
};

/// "cpu" or "cuda:0".
inline std::string to_string(Device device) {
  return device.is_cpu() ? "cpu" : "cuda:" + std::to_string(device.index);
}

}  // namespace lockstep

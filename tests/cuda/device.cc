#include "lockstep/tests/cuda/device.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/cuda/make_backend.h"
#include "lockstep/tensor/cuda/simt/device.h"
#include "lockstep/tensor/cuda/simt/simt.h"
#include "lockstep/tensor/ops/copy.h"

#include <cstdlib>
#include <string_view>

namespace lockstep::testing {
namespace {

bool use_gpu() {
  const char* device = std::getenv("LOCKSTEP_DEVICE");
  return device != nullptr && std::string_view(device) == "cuda";
}

/// Restores what was behind Device::cuda(), also after a failed REQUIRE.
class Installed {
 public:
  explicit Installed(const Backend& backend) : before_(set_cuda_backend(&backend)) {}
  ~Installed() { set_cuda_backend(before_); }
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;

 private:
  const Backend* before_;
};

}  // namespace

void on_cuda_device(const std::function<void()>& fn) {
  if (use_gpu()) return fn();
  static const Backend backend =
      simt::make_backend("simt", simt::device_memory(), simt::device_streams());
  const Installed installed(backend);
  for (const unsigned schedule : {1u, 77u}) {
    simt::set_schedule(schedule);
    fn();
  }
}

Tensor to_cuda(const Tensor& x) { return ops::to_device(x, Device::cuda()); }

Tensor to_cpu(const Tensor& x) { return ops::to_device(x, Device::cpu()); }

Tensor into(Device device, const Tensor& before, bool accumulate,
            const std::function<void(const Dest&)>& fn) {
  Tensor out = ops::to_device(ops::clone(before), device);
  fn(Dest{out, accumulate});
  return to_cpu(out);
}

}  // namespace lockstep::testing

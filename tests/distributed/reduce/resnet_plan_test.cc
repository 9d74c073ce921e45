#include "lockstep/distributed/reduce/bucket_plan.h"
#include "lockstep/models/resnet.h"

#include <doctest/doctest.h>

#include <vector>

namespace lockstep {
namespace {

std::vector<int64_t> bucket_bytes(double first_mb, double rest_mb) {
  Generator rng(1);
  const auto model = make_resnet("resnet18", {}, rng);
  std::vector<ParamSpec> specs;
  for (const auto& [name, parameter] : model->named_parameters()) {
    specs.push_back({name, parameter.shape(), parameter.dtype()});
  }
  std::vector<int64_t> bytes;
  for (const Bucket& bucket :
       plan_buckets(specs, {.first_mb = first_mb, .rest_mb = rest_mb}).buckets) {
    bytes.push_back(bucket.bytes);
  }
  return bytes;
}

// The sizes that PyTorch's DDP logs for torchvision's ResNet-18, from a public trace.
TEST_CASE("ResNet-18 falls into the buckets that PyTorch's DDP makes") {
  CHECK(bucket_bytes(1, 25) == std::vector<int64_t>{2052000, 28852224, 15853824});
  CHECK(bucket_bytes(1, 35) == std::vector<int64_t>{2052000, 38297600, 6408448});
}

}  // namespace
}  // namespace lockstep

// The device that plans are made for: an H200 that this machine need not have.
#pragma once

#include "lockstep/tensor/cuda/cudnn/descriptor.h"

namespace lockstep::testing {

/// From h200.json. The first call also loads the fake driver, before cuDNN looks for one.
const cuda::Descriptor& h200();

}  // namespace lockstep::testing

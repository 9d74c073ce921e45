// --amp, the flag of mixed precision, which all programs that train have.
#pragma once

#include "lockstep/tensor/dtype.h"
#include "lockstep/train/checkpoint.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

/// "off" or "bf16".
struct AmpFlag {
  std::string amp = "off";
};

void add_amp_flag(CLI::App& app, AmpFlag& flag);

/// For Autocast, around forward.
DType precision_of(const AmpFlag& flag);

/// For a checkpoint: a run goes on in the precision that it began with. None for "off", which is
/// what checkpoints are of that were written before there was a choice.
std::vector<RunTrait> amp_traits(const AmpFlag& flag);
/// What a checkpoint's traits say.
AmpFlag amp_of(const std::vector<RunTrait>& traits);

/// A line for the user where --amp bf16 gains nothing on this processor; else empty.
std::string amp_notice(const AmpFlag& flag);

}  // namespace lockstep

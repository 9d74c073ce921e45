#include "lockstep/train/amp_flag.h"

#include "lockstep/tensor/ops/matmul.h"

#include <CLI/CLI.hpp>

namespace lockstep {

void add_amp_flag(CLI::App& app, AmpFlag& flag) {
  app.add_option("--amp", flag.amp,
                 "Mixed precision: off, or bf16 for products, convolutions and activations")
      ->check(CLI::IsMember({"off", "bf16"}));
}

DType precision_of(const AmpFlag& flag) { return flag.amp == "bf16" ? DType::kBF16 : DType::kF32; }

std::vector<RunTrait> amp_traits(const AmpFlag& flag) {
  if (flag.amp == "off") return {};
  return {{"--amp", flag.amp}};
}

AmpFlag amp_of(const std::vector<RunTrait>& traits) {
  for (const RunTrait& trait : traits) {
    if (trait.name == "--amp") return {trait.value};
  }
  return {};
}

std::string amp_notice(const AmpFlag& flag) {
  if (precision_of(flag) != DType::kBF16 || ops::has_fast_bf16()) return "";
  return "--amp bf16: this processor has no instructions for bf16 (AVX-512 BF16 or AMX), so "
         "training "
         "is no faster than with --amp off";
}

}  // namespace lockstep

// What a checkpoint notes of its data, read back.
#include "lockstep/base/error.h"
#include "lockstep/data/open_dataset.h"
#include "lockstep/train/data_flags.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

namespace lockstep {
namespace {

double number(const std::string& text, const RunTrait& trait, const std::string& name) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(std::abs(value) < 1e6)) {
    throw IoError(str(name, ": ", trait.name, ": wanted a number, got ", text));
  }
  return value;
}

/// "0.5,0.5,0.5"; "default" gives none.
std::vector<double> list(const RunTrait& trait, const std::string& name) {
  std::vector<double> values;
  if (trait.value == "default") return values;
  std::istringstream parts(trait.value);
  for (std::string part; std::getline(parts, part, ',');) {
    values.push_back(number(part, trait, name));
  }
  if (values.size() != 3) {
    throw IoError(str(name, ": ", trait.name, ": wanted three numbers, got ", trait.value));
  }
  return values;
}

}  // namespace

void take_data_traits(const std::vector<RunTrait>& traits, const std::string& name,
                      DataFlags& flags) {
  for (const RunTrait& trait : traits) {
    if (trait.name == "--dataset" && flags.dataset.empty()) flags.dataset = trait.value;
  }
  if (!takes_image_options(flags.dataset)) return;
  const auto size = [&](const RunTrait& trait, std::optional<int64_t>& to) {
    if (!to) to = static_cast<int64_t>(number(trait.value, trait, name));
  };
  // The checkpoint's size of the shorter side belongs to its size of images.
  const bool own_size = flags.image_size.has_value();
  for (const RunTrait& trait : traits) {
    if (trait.name == "--image-size") size(trait, flags.image_size);
    if (trait.name == "--resize-size" && !own_size) size(trait, flags.resize_size);
    if (trait.name == "--mean" && flags.mean.empty()) flags.mean = list(trait, name);
    if (trait.name == "--std" && flags.deviation.empty()) flags.deviation = list(trait, name);
    if (trait.name == "--val-fraction" && !flags.val_fraction && flags.dataset == "folder") {
      const double fraction = number(trait.value, trait, name);
      if (fraction > 0) flags.val_fraction = fraction;
    }
  }
}

}  // namespace lockstep

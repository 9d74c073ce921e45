// The command-line flags that say what a trainer of images reads, and how.
#pragma once

#include "lockstep/data/datasets.h"
#include "lockstep/data/loader.h"
#include "lockstep/train/checkpoint.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

struct DataFlags {
  std::string dataset = "digits";
  std::string data_dir;
  bool augment = false;
  int workers = 1;
};

void add_data_flags(CLI::App& app, DataFlags& flags);

/// What is wrong with the flags together, for a usage error; empty: nothing.
std::string wrong_data_flags(const DataFlags& flags);

struct TrainingData {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> test;
};

/// Both splits. `seed` is of the augmentation. Throws IoError, among others when the splits'
/// images differ in size or their classes in number.
TrainingData open_data(const DataFlags& flags, uint64_t seed);

/// What the loader does to a training image; null: nothing.
ImageTransform data_transform(const DataFlags& flags, uint64_t seed);

/// What a resumed run must have in common with the one that it goes on with.
std::vector<RunTrait> data_traits(const DataFlags& flags);

}  // namespace lockstep

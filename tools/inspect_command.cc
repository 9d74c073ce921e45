#include "lockstep/io/safetensors.h"
#include "lockstep/train/checkpoint.h"

#include "command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace lockstep::tools {
namespace {

/// A text from a file for the console: what could move its cursor or colour it becomes '?'.
std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

struct Total {
  size_t tensors = 0;
  int64_t values = 0;
  uint64_t bytes = 0;

  void add(const TensorEntry& entry) {
    ++tensors;
    values += entry.shape.numel();
    bytes += entry.bytes;
  }
  std::string text() const {
    return str(tensors, tensors == 1 ? " tensor, " : " tensors, ", values, " parameters, ", bytes,
               " bytes");
  }
};

void print_tensors(const TensorFileHeader& header) {
  size_t width = 4, shape_width = 5;
  for (const TensorEntry& entry : header.tensors) {
    width = std::max(width, entry.name.size());
    shape_width = std::max(shape_width, str(entry.shape).size());
  }
  const auto line = [&](const std::string& name, const char* dtype, const std::string& shape,
                        const std::string& count) {
    std::printf("%-*s  %-5s  %-*s  %12s\n", static_cast<int>(width), name.c_str(), dtype,
                static_cast<int>(shape_width), shape.c_str(), count.c_str());
  };
  line("name", "dtype", "shape", "count");
  for (const TensorEntry& entry : header.tensors) {
    line(printable(entry.name), name_of(entry.dtype), str(entry.shape), str(entry.shape.numel()));
  }
}

void print_checkpoint(const std::string& path, const TensorFileHeader& header) {
  const Checkpoint checkpoint = read_checkpoint_header(path);
  Total model;
  for (const TensorEntry& entry : header.tensors) {
    // The model's names have no slash (train/checkpoint.h).
    if (entry.name.find('/') == std::string::npos) model.add(entry);
  }
  std::printf("of which the model and its buffers: %s\n", model.text().c_str());
  const Position& at = checkpoint.position;
  std::printf("checkpoint at step %lld, epoch %lld, batch %lld", static_cast<long long>(at.step),
              static_cast<long long>(at.epoch), static_cast<long long>(at.batch));
  if (checkpoint.best_accuracy >= 0) {
    std::printf("; best accuracy %.2f %%", 100 * checkpoint.best_accuracy);
  }
  if (checkpoint.best_loss) std::printf("; best loss %.4f", *checkpoint.best_loss);
  std::printf("\n");
  for (const auto& [name, value] : checkpoint.traits) {
    std::printf("  %s %s\n", printable(name).c_str(), printable(value).c_str());
  }
}

int inspect(const std::string& path) {
  const TensorFileHeader header = read_safetensors_header(path);
  Total total;
  for (const TensorEntry& entry : header.tensors) total.add(entry);
  print_tensors(header);
  std::printf("total: %s\n", total.text().c_str());
  std::string keys;
  for (const auto& [key, value] : header.metadata) keys += (keys.empty() ? "" : ", ") + key;
  std::printf("metadata: %s\n", keys.empty() ? "none" : printable(keys).c_str());
  if (is_checkpoint(header.metadata)) print_checkpoint(path, header);
  return 0;
}

}  // namespace

Command inspect_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "inspect",
      "Show what a safetensors file holds: its tensors, metadata, and where a checkpoint is");
  app->footer(
      "Only the file's header is read.\n"
      "Example: lockstep inspect runs/demo/last.safetensors");
  const auto path = std::make_shared<std::string>();
  app->add_option("file", *path, "A safetensors file, a trainer's checkpoint among others")
      ->required();
  return {app, [path] { return inspect(*path); }};
}

}  // namespace lockstep::tools

// Training steps on request: bench/compare_torch.py and bench/compare_ddp.py drive this beside
// PyTorch. For each line read, the number of a --way, a step is taken in that way and its
// milliseconds are printed as one line of JSON, with the most memory that the process held so far
// beside what it held before there was a model. Under a launcher every rank reads the same lines.

#include "lockstep/base/error.h"
#include "lockstep/bench/contender.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/train/command_line.h"

#include <omp.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace lockstep;

/// "overlapped:25" or "local:bf16": the mode, and the bucket size in MB or the precision.
bench::Way parse_way(const std::string& text) {
  size_t colon = text.find(':');
  bench::Way way{.mode = parse_ddp_mode(text.substr(0, colon))};
  while (colon != std::string::npos) {
    const size_t begin = colon + 1;
    colon = text.find(':', begin);
    const std::string part = text.substr(begin, colon == text.npos ? colon : colon - begin);
    if (part == "bf16") {
      way.precision = DType::kBF16;
      continue;
    }
    char* end = nullptr;
    way.cap_mb = std::strtod(part.c_str(), &end);
    check(!part.empty() && *end == '\0' && way.cap_mb >= 0,
          "--way: wanted MODE, MODE:MB, MODE:bf16 or MODE:MB:bf16, got '", text, "'");
  }
  return way;
}

/// MB of a line of /proc/self/status: "VmHWM" is the most that was resident, "VmRSS" what is.
double memory_mb(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(what + ":")) return std::stod(line.substr(what.size() + 1)) / 1024;
  }
  return 0;
}

int run(int argc, char** argv) {
  bench::Workload workload{.batch = 8};
  ModelTask& task = workload.task;
  task.images = {.image_size = 224, .classes = 1000};
  std::vector<std::string> names = {"overlapped:25"};
  int threads = 2;
  std::string device = "cpu";
  CLI::App app{"One training step for each line on standard input", "train_step"};
  app.footer(
      "Example: train_step --model resnet50 --batch 16 --threads 1 --way local --way "
      "overlapped:25");
  app.add_option("--model", task.model, "resnet18, resnet50, bert-mini, bert-base, ...");
  app.add_option("--size", task.images.image_size, "height and width of the images");
  app.add_option("--batch", workload.batch, "images or sequences in a step");
  app.add_option("--classes", task.images.classes, "classes");
  app.add_option("--length", task.texts.length, "tokens of a sequence, every eighth masked");
  app.add_option("--dropout", task.texts.dropout,
                 "of a BERT's hidden values and attention's probabilities");
  app.add_option("--threads", threads, "OpenMP threads");
  app.add_option("--way", names,
                 "how gradients are averaged: overlapped:25, naive, local:bf16, ...");
  app.add_option("--device", device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  if (const auto code = parse_command_line(app, normalize_flags(argc, argv))) return *code;
  omp_set_num_threads(threads);

  const Device where = device == "cuda" ? Device::cuda() : Device::cpu();
  const auto group = make_process_group({.device = where});
  const double before = memory_mb("VmRSS");
  std::vector<std::unique_ptr<bench::Contender>> contenders;
  for (const std::string& name : names) {
    bench::Way way = parse_way(name);
    way.device = where;
    contenders.push_back(std::make_unique<bench::Contender>(workload, way, *group));
  }
  for (std::string line; std::getline(std::cin, line);) {
    const auto which = static_cast<size_t>(std::atoi(line.c_str()));
    check(which < contenders.size(), "wanted the number of a --way, got '", line, "'");
    const bench::StepCost cost = contenders[which]->step();
    std::printf(
        "{\"forward\": %.3f, \"backward\": %.3f, \"optimizer\": %.3f, \"total\": %.3f, "
        "\"communication\": %.3f, \"exposed\": %.3f, \"memory_mb\": %.1f}\n",
        cost.times.of(Activity::kForward), cost.times.of(Activity::kBackward),
        cost.times.of(Activity::kOptimizer), cost.wall_ms, cost.times.comm_total,
        cost.times.comm_exposed, memory_mb("VmHWM") - before);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_step: %s\n", error.what());
    return 1;
  }
}

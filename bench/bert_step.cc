// Steps of BERT's pretraining on request: bench/compare_bert.py drives this beside PyTorch. For
// each line read a step is taken (forward, loss, backward, AdamW) and its milliseconds are printed
// as one line of JSON, with the most memory that the process held so far beside what it held before
// there was a model.

#include "lockstep/autograd/autocast.h"
#include "lockstep/base/error.h"
#include "lockstep/models/bert.h"
#include "lockstep/optim/adam.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/train/command_line.h"

#include <omp.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

using namespace lockstep;

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

/// MB of a line of /proc/self/status: "VmHWM" is the most that was resident, "VmRSS" what is.
double memory_mb(const std::string& what) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(what + ":")) return std::stod(line.substr(what.size() + 1)) / 1024;
  }
  return 0;
}

/// Every seventh token is masked.
struct Batch {
  BertInput input;
  Tensor positions, labels, next_labels;

  Batch(int64_t batch, int64_t length, int64_t vocabulary) {
    Generator rng(1);
    const PhiloxRange dice = rng.take(2 * batch * length);
    std::vector<int64_t> ids, at, label;
    for (int64_t i = 0; i < batch * length; ++i) {
      ids.push_back(dice.bits(2 * i) % vocabulary);
      if (i % 7 != 0) continue;
      at.push_back(i);
      label.push_back(dice.bits(2 * i + 1) % vocabulary);
    }
    const auto masked = static_cast<int64_t>(at.size());
    input.ids = Tensor::from(ids, {batch, length});
    positions = Tensor::from(at, {masked});
    labels = Tensor::from(label, {masked});
    next_labels = Tensor::zeros({batch}, DType::kI64);
  }
};

int run(int argc, char** argv) {
  std::string size = "mini";
  int64_t sequences = 16, length = 128;
  double dropout = 0.1;
  std::string precision = "f32";
  int threads = 2;
  CLI::App app{"One step of BERT's pretraining for each line on standard input", "bert_step"};
  app.footer("Example: bert_step --size mini --batch 16 --length 128 --threads 1");
  app.add_option("--size", size, "tiny, mini, small, medium, base or large")
      ->check(CLI::IsMember(bert_config_names()));
  app.add_option("--batch", sequences, "sequences in a step")->check(CLI::Range(1, 65536));
  app.add_option("--length", length, "tokens in a sequence")->check(CLI::Range(1, 512));
  app.add_option("--dropout", dropout, "of hidden values and attention's probabilities")
      ->check(CLI::Range(0.0, 0.99));
  app.add_option("--precision", precision, "f32, or bf16: mixed")
      ->check(CLI::IsMember({"f32", "bf16"}));
  app.add_option("--threads", threads, "OpenMP threads")->check(CLI::Range(1, 1024));
  if (const auto code = parse_command_line(app, normalize_flags(argc, argv))) return *code;
  omp_set_num_threads(threads);

  const double before = memory_mb("VmRSS");
  BertConfig config = bert_config_by_name(size);
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout;
  Generator rng(1);
  BertForPreTraining model(config, rng);
  AdamW optimizer(model.named_parameters(), {.lr = 1e-4});
  const Batch batch(sequences, length, config.vocab_size);
  for (std::string line; std::getline(std::cin, line);) {
    optimizer.zero_grad();
    const double start = now_ms();
    Variable loss;
    {
      const Autocast mixed(precision == "bf16" ? DType::kBF16 : DType::kF32);
      loss = bert_pretraining_loss(model(batch.input, batch.positions), batch.labels,
                                   batch.next_labels);
    }
    const double forward = now_ms();
    loss.backward();
    const double backward = now_ms();
    optimizer.step();
    const double end = now_ms();
    std::printf(
        "{\"forward\": %.3f, \"backward\": %.3f, \"optimizer\": %.3f, \"total\": %.3f, "
        "\"loss\": %.4f, \"memory_mb\": %.1f}\n",
        forward - start, backward - forward, end - backward, end - start, loss.data().item(),
        memory_mb("VmHWM") - before);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bert_step: %s\n", error.what());
    return 1;
  }
}

#include "lockstep/tests/examples/bert_process.h"

#include "lockstep/io/safetensors.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lockstep::testing {
namespace {

constexpr size_t kSubjects = 6, kWordsEach = 3;
constexpr const char* kWords[kSubjects][kWordsEach] = {
    {"king", "queen", "crown"},   {"ship", "sail", "harbour"},  {"bread", "oven", "flour"},
    {"wolf", "forest", "hunter"}, {"rain", "cloud", "thunder"}, {"song", "drum", "dancer"}};

/// Words of the n-th sentence's subject.
std::string sentence(size_t n, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const size_t word = (n * n + n * i + i / 2 + i * i * 5) % kWordsEach;
    text += (i == 0 ? "" : " ") + std::string(kWords[(n * 7 + n / 11) % kSubjects][word]);
  }
  return text;
}

}  // namespace

std::string small_corpus(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    const auto n = static_cast<size_t>(i);
    text += sentence(n, 7 + n % 5) + ".\n";
    if (i % 20 == 19) text += "\n";
  }
  return text;
}

std::string small_labelled_text(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    const auto n = static_cast<size_t>(i);
    // The same around both, so that nothing else tells.
    const bool sun = n % 2 == 0;
    text += sentence(n / 2, 2 + n / 2 % 3) + (sun ? " sun " : " moon ") + sentence(n / 2 + 1, 2) +
            "\t" + (sun ? "day" : "night") + "\n";
  }
  return text;
}

std::vector<std::string> small_model() {
  return {"--threads",
          "1",
          "--hidden-size",
          "32",
          "--num-hidden-layers",
          "1",
          "--num-attention-heads",
          "2",
          "--max-position-embeddings",
          "32",
          "--max-seq-length",
          "16"};
}

std::unique_ptr<Process> run_bert(const std::string& command, std::vector<std::string> more,
                                  const ProcessOptions& options) {
  std::vector<std::string> arguments{command};
  if (command == "pretrain") {
    const std::vector<std::string> model = small_model();
    arguments.insert(arguments.end(), model.begin(), model.end());
  }
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(kTrainBert, arguments, options);
}

double difference(const std::string& a, const std::string& b) {
  const TensorFile first = read_safetensors(a), second = read_safetensors(b);
  double most = 0;
  for (const NamedTensor& named : first.tensors) {
    if (named.name.find('/') != named.name.npos) continue;
    const auto x = named.tensor.to_vector<float>();
    const auto y = second.at(named.name).to_vector<float>();
    double apart = 0, largest = 1e-30;
    for (size_t i = 0; i < x.size(); ++i) {
      apart = std::max(apart, static_cast<double>(std::abs(x[i] - y[i])));
      largest = std::max(largest, static_cast<double>(std::abs(x[i])));
    }
    most = std::max(most, apart / largest);
  }
  return most;
}

double number_after(const std::string& text, const std::string& words) {
  const size_t at = text.rfind(words);
  return at == text.npos ? std::nan("") : std::strtod(text.c_str() + at + words.size(), nullptr);
}

}  // namespace lockstep::testing

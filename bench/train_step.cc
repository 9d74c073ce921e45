// One training step on request: bench/compare_torch.py drives this beside PyTorch. For each line
// read, a step of forward, cross-entropy, backward and SGD runs, and its milliseconds are printed
// as one line of JSON.

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/base/timeline.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/models/resnet.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/random.h"
#include "lockstep/train/command_line.h"

#include <omp.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <iostream>
#include <string>

namespace {

using namespace lockstep;

double milliseconds(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
  std::string model_name = "resnet18";
  std::string stem = "imagenet";
  int size = 224;
  int batch = 8;
  int classes = 1000;
  int threads = 2;
  CLI::App app{"One training step for each line on standard input", "train_step"};
  app.footer("Example: train_step --model resnet50 --batch 16 --threads 1");
  app.add_option("--model", model_name, "resnet18, resnet50, ...");
  app.add_option("--stem", stem, "imagenet or cifar")->check(CLI::IsMember({"imagenet", "cifar"}));
  app.add_option("--size", size, "height and width of the images");
  app.add_option("--batch", batch, "images in a step");
  app.add_option("--classes", classes, "classes");
  app.add_option("--threads", threads, "OpenMP threads");
  if (const auto code = parse_command_line(app, normalize_flags(argc, argv))) return *code;
  omp_set_num_threads(threads);

  Generator rng(1);
  const auto group = make_single_group();
  const auto model = make_resnet(
      model_name,
      {.classes = classes, .stem = stem == "cifar" ? ResNetStem::kCifar : ResNetStem::kImageNet},
      rng);
  DataParallel ddp(*model, *group);
  Sgd optimizer(model->named_parameters(), {.lr = 0.01, .momentum = 0.9});
  Tensor images = Tensor::empty({batch, size, size, 3}, DType::kF32);
  ops::normal(images, 0, 1, rng);
  Tensor labels = Tensor::empty({batch}, DType::kI64);
  for (int i = 0; i < batch; ++i) labels.mutable_data<int64_t>()[i] = i % classes;

  for (std::string line; std::getline(std::cin, line);) {
    const int64_t start = Timeline::now_ns();
    optimizer.zero_grad();
    const Variable loss = cross_entropy(model->forward(Variable(images)), labels);
    const int64_t after_forward = Timeline::now_ns();
    loss.backward();
    const int64_t after_backward = Timeline::now_ns();
    optimizer.step();
    const int64_t end = Timeline::now_ns();
    std::printf(
        "{\"forward\": %.3f, \"backward\": %.3f, \"optimizer\": %.3f, \"total\": %.3f, \"loss\": "
        "%.4f}\n",
        milliseconds(start, after_forward), milliseconds(after_forward, after_backward),
        milliseconds(after_backward, end), milliseconds(start, end), loss.data().item());
    std::fflush(stdout);
  }
}

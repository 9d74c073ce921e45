// The whole of data-parallel training: a model of your own, data of your own, gradients averaged
// while backward runs, and a file to keep.
//   one process:    minimal
//   four processes: lockstep launch --nproc 4 -- minimal
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/sgd.h"

#include <cstdio>

using namespace lockstep;

struct Net : Module {
  Generator rng{1};
  Linear hidden{{.in_features = 2, .out_features = 32}, rng};
  Linear out{{.in_features = 32, .out_features = 2}, rng};

  Net() { register_module("hidden", hidden), register_module("out", out); }
  Variable operator()(const Variable& x) { return out(relu(hidden(x))); }
};

/// Points of the square, and whether each lies inside a circle of half its area.
std::pair<Tensor, Tensor> draw_points(Generator& rng, int64_t count) {
  Tensor points = Tensor::empty({count, 2}, DType::kF32),
         inside = Tensor::empty({count}, DType::kI64);
  float* xy = points.mutable_data<float>();
  const PhiloxRange numbers = rng.take(2 * count);
  for (int64_t i = 0; i < 2 * count; ++i) xy[i] = 2 * numbers.uniform(i) - 1;
  for (int64_t i = 0; i < count; ++i) {
    inside.mutable_data<int64_t>()[i] =
        xy[2 * i] * xy[2 * i] + xy[2 * i + 1] * xy[2 * i + 1] < 0.637f;
  }
  return {points, inside};
}

int main() try {
  const auto group = make_process_group();  // from RANK, WORLD_SIZE, ...; alone without them
  Net net;
  DataParallel ddp(net, *group);
  Sgd optimizer(net.named_parameters(), {.lr = 0.2, .momentum = 0.9});
  Generator data(100 + static_cast<uint64_t>(group->rank()));  // each rank its own points
  for (int step = 1; step <= 300; ++step) {
    const auto [points, inside] = draw_points(data, 128);
    const Variable loss = cross_entropy(net(Variable(points)), inside);
    optimizer.zero_grad();
    loss.backward();  // afterwards every gradient is the mean over all ranks
    optimizer.step();
    if (group->rank() == 0 && step % 100 == 0)
      std::printf("step %d  loss %.4f\n", step, loss.data().item());
  }
  if (group->rank() == 0) write_safetensors("minimal.safetensors", net.state_dict());
} catch (const std::exception& error) {
  std::fprintf(stderr, "minimal: %s\n", error.what());
  return 1;
}

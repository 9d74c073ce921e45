#include "lockstep/tests/distributed/reduce/small_net.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/conv.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <omp.h>

#include <algorithm>
#include <mutex>

namespace lockstep::testing {

SmallNet::SmallNet(DType dtype, uint64_t seed, Device device) {
  uint64_t next = 100 * seed;
  const auto make = [&](const char* name, Variable& parameter, const Shape& shape, double bound) {
    const Tensor values = random_tensor(shape, next++, -bound, bound, dtype);
    parameter = Variable(ops::to_device(values, device), /*requires_grad=*/true);
    register_parameter(name, parameter);
  };
  make("conv1", conv1, {6, 3, 3, 2}, 0.3);
  make("bias1", bias1, {6}, 0.1);
  make("conv2", conv2, {8, 3, 3, 6}, 0.2);
  make("bias2", bias2, {8}, 0.1);
  make("fc", fc, {5, 8}, 0.4);
  make("fc_bias", fc_bias, {5}, 0.1);
}

Variable SmallNet::forward(const Variable& x) const {
  Variable y = relu(conv2d(x, conv1, bias1, {.padding = {1, 1}}));
  y = max_pool2d(y, {.kernel = {2, 2}, .stride = {2, 2}});
  y = relu(conv2d(y, conv2, bias2, {.stride = {2, 2}}));
  return linear(global_avg_pool2d(y), fc, fc_bias);
}

SmallBatch small_batch(int step, int global_batch, int begin, int end, DType dtype) {
  const auto seed = static_cast<uint64_t>(step) + 5000;
  const Tensor inputs =
      random_tensor({global_batch, 8, 8, 2}, seed, -1, 1, dtype).slice(begin, end);
  const Tensor raw = random_tensor({global_batch}, seed + 5000, 0, 5);
  return {inputs, ops::cast(raw, DType::kI64).slice(begin, end)};
}

std::vector<Tensor> train_small_net_on(ProcessGroup& group, const TrainOptions& options) {
  SmallNet net(options.dtype, static_cast<uint64_t>(1 + group.rank()),  // rank 0's values win
               options.device);
  DataParallel ddp(net, group, options.ddp);
  std::vector<HookHandle> hooks;
  if (options.hook_delay) {
    for (auto& [name, parameter] : net.named_parameters()) {
      hooks.push_back(
          parameter.on_grad_ready([&](const Variable&) { options.hook_delay(group.rank()); }));
    }
  }
  Sgd optimizer(net.named_parameters(), {.lr = 0.1, .momentum = 0.9});
  const int per_rank = options.global_batch / group.size();
  const int micro = per_rank / options.micro_batches;
  for (int step = 0; step < options.steps; ++step) {
    optimizer.zero_grad();
    for (int m = 0; m < options.micro_batches; ++m) {
      const int begin = group.rank() * per_rank + m * micro;
      const SmallBatch batch =
          small_batch(step, options.global_batch, begin, begin + micro, options.dtype);
      const Variable inputs(ops::to_device(batch.inputs, options.device));
      const Tensor targets = ops::to_device(batch.targets, options.device);
      const Variable loss =
          scale(cross_entropy(net.forward(inputs), targets), 1.0 / options.micro_batches);
      if (m + 1 < options.micro_batches) {
        const NoSync no_sync = ddp.no_sync();
        loss.backward();
      } else {
        loss.backward();
      }
    }
    optimizer.step();
  }
  std::vector<Tensor> values;
  for (const auto& [name, parameter] : net.named_parameters())
    values.push_back(ops::clone(ops::to_device(parameter.data(), Device::cpu())));
  return values;
}

std::vector<std::vector<Tensor>> train_small_net(const TrainOptions& options) {
  std::vector<std::vector<Tensor>> results(static_cast<size_t>(options.ranks));
  spawn(options.ranks,
        [&](ProcessGroup& group) {
          omp_set_num_threads(1);  // the ranks are the parallelism
          results[static_cast<size_t>(group.rank())] = train_small_net_on(group, options);
        },
        {.delay = options.delay});
  return results;
}

double largest_difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double largest = a.size() == b.size() ? 0 : 1e9;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, relative_difference(a[i], b[i]));
  }
  return largest;
}

}  // namespace lockstep::testing

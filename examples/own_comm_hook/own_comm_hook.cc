// A program of one's own with a communication hook of one's own, chosen by name:
//   lockstep launch --nproc 3 -- own_comm_hook byte
//   lockstep launch --nproc 3 -- own_comm_hook topk:ratio=0.1
#include "byte_hook.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/reduce/hooks/registry.h"
#include "lockstep/nn/nn.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/random.h"

#include <cstdio>

int main(int argc, char** argv) try {
  const auto group = make_process_group();

  CommHookRegistry hooks = builtin_comm_hooks();
  hooks["byte"] = [](CommHookOptions&) { return std::make_shared<ByteHook>(); };
  const std::shared_ptr<CommHook> hook = parse_comm_hook(argc > 1 ? argv[1] : "byte", hooks);

  Generator init(1);
  Linear truth({.in_features = 64, .out_features = 8}, init);
  Linear model({.in_features = 64, .out_features = 8}, init);
  DataParallel ddp(model, *group, {.reduction = run_comm_hook(hook, *group)});

  Sgd optimizer(model.named_parameters(), {.lr = 1});
  Generator data(100 + static_cast<uint64_t>(group->rank()));  // each rank its own
  for (int step = 1; step <= 40; ++step) {
    Tensor x = Tensor::empty({32, 64}, DType::kF32);
    ops::normal(x, 0, 1, data);
    const Variable miss = model(Variable(x)) - Variable(truth(Variable(x)).data());
    const Variable loss = mean(miss * miss);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (group->rank() == 0 && step % 10 == 0) {
      std::printf("step %d  loss %.1e\n", step, loss.data().item());
    }
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "own_comm_hook: %s\n", error.what());
  return 1;
}

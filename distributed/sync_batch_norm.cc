#include "lockstep/distributed/sync_batch_norm.h"

#include "lockstep/autograd/ops/norm_exchange.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/nn/batch_norm.h"

#include <memory>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

class GroupExchange final : public NormExchange {
 public:
  explicit GroupExchange(std::unique_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  Tensor all_gather(const Tensor& mine) override {
    const OpLabel label("batch statistics");
    const Tensor all = Tensor::empty({group_->size(), mine.numel()}, mine.dtype(), mine.device());
    group_->all_gather(all, mine)->wait();
    return all;
  }
  void all_reduce(Tensor& sums) override {
    const OpLabel label("batch statistics");
    group_->all_reduce(sums)->wait();
  }

 private:
  std::unique_ptr<ProcessGroup> group_;
};

}  // namespace

int use_sync_batch_norm(Module& module, ProcessGroup& group) {
  if (group.size() == 1) return 0;
  std::vector<BatchNorm2d*> layers;
  module.for_each_module([&](Module& part) {
    if (auto* layer = dynamic_cast<BatchNorm2d*>(&part)) layers.push_back(layer);
  });
  if (layers.empty()) return 0;
  const auto exchange = std::make_shared<GroupExchange>(group.split(0, group.rank()));
  for (BatchNorm2d* layer : layers) layer->set_exchange(exchange);
  return static_cast<int>(layers.size());
}

}  // namespace lockstep

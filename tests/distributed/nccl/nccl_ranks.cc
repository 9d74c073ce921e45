#include "lockstep/tests/distributed/nccl/nccl_ranks.h"

#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tensor/ops/copy.h"

#include <thread>

namespace lockstep::testing {

NcclOutcome run_nccl(const NcclRanks& ranks, const std::function<void(NcclRank&)>& fn) {
  FakeNccl nccl;
  const auto n = static_cast<size_t>(ranks.ranks);
  std::vector<std::unique_ptr<comm::NcclApi>> libraries;
  std::vector<MortalStore*> stores(n);
  for (int r = 0; r < ranks.ranks; ++r) {
    FakeNcclOptions options = ranks.fake ? ranks.fake(r) : FakeNcclOptions{};
    if (ranks.at_init) {
      options.at_init = [&, r] { ranks.at_init(r, *stores[static_cast<size_t>(r)]); };
    }
    libraries.push_back(nccl.rank(options));
  }
  auto server = std::make_shared<TcpStore>(TcpStoreOptions{.serve = true, .token = "t", .rank = 0});
  NcclOutcome outcome;
  outcome.errors.resize(n);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks.ranks; ++r) {
    if (!ranks.comes(r)) continue;
    threads.emplace_back([&, r] {
      try {
        std::shared_ptr<Store> connected = server;
        if (r != 0) {
          connected = std::make_shared<TcpStore>(
              TcpStoreOptions{.port = server->port(), .token = "t", .rank = r});
        }
        const auto store = std::make_shared<MortalStore>(std::move(connected));
        stores[static_cast<size_t>(r)] = store.get();
        if (ranks.at_claim) ranks.at_claim(r, *store);
        NcclGroupOptions options = ranks.group;
        if (ranks.host_id) options.host_id = ranks.host_id(r);
        NcclRank rank{make_nccl_group(*libraries[static_cast<size_t>(r)], store, "g", r,
                                      ranks.ranks, options),
                      *store, nccl};
        fn(rank);
      } catch (const std::exception& error) {
        outcome.errors[static_cast<size_t>(r)] = error.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  outcome.misuses = nccl.misuses();
  outcome.ranges = nccl.ranges();
  outcome.live = nccl.live();
  outcome.max_ctas = nccl.max_ctas();
  outcome.registrations = nccl.registrations();
  return outcome;
}

Tensor on_device(double value, int64_t n) {
  return ops::full({n}, value, DType::kF32, Device::cuda());
}

}  // namespace lockstep::testing

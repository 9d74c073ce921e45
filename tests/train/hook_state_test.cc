// Every rank's hook state comes to rank 0, and back to whom it belongs.
#include "lockstep/train/hook_state.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/thread_group.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

std::vector<NamedTensor> state_of(int rank) {
  const auto r = static_cast<float>(rank);
  std::vector<NamedTensor> state = {
      {"residual.conv1.weight",
       Tensor::from<float>({r, r + 1, r + 2, r + 3, r + 4, r + 5}, {2, 3})},
      {"none", Tensor::zeros({0}, DType::kF32)},
      {"count", Tensor::from<int64_t>({rank}, {})}};
  // Not every rank need have the same.
  if (rank == 1) state.push_back({"more/of it", Tensor::from<double>({0.5}, {1})});
  if (rank == 2) state.clear();
  return state;
}

TEST_CASE("hook state: gathered and taken apart") {
  spawn(4, [](ProcessGroup& group) {
    const auto all = gather_hook_state(state_of(group.rank()), group);
    if (group.rank() != 0) {
      check(all.empty(), "only rank 0 gets it");
      return;
    }
    check(all.size() == 10, "got ", all.size());
    for (const NamedTensor& entry : all) check(is_hook_state(entry.name), entry.name);
    for (int r = 0; r < group.size(); ++r) {
      const auto wanted = state_of(r), got = hook_state_of(r, all);
      check(got.size() == wanted.size(), "rank ", r, ": ", got.size());
      for (size_t i = 0; i < wanted.size(); ++i) {
        const Tensor &a = wanted[i].tensor, &b = got[i].tensor;
        check(got[i].name == wanted[i].name && a.dtype() == b.dtype() && a.shape() == b.shape(),
              got[i].name);
        check(std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0, "the bits of ", got[i].name);
      }
    }
  });
}

TEST_CASE("hook state: its names") {
  CHECK(is_hook_state("rank0/comm_hook/x"));
  CHECK(is_hook_state("rank12/comm_hook/"));
  for (const char* other : {"rank/rng", "rank/comm_hook/x", "rank1/comm", "rank1x/comm_hook/x",
                            "rank", "xrank1/comm_hook/x", "conv1.weight"}) {
    CAPTURE(other);
    CHECK_FALSE(is_hook_state(other));
  }
  // Rank 1 is not rank 11.
  const std::vector<NamedTensor> all = {{"rank11/comm_hook/x", Tensor()}};
  CHECK(hook_state_of(1, all).empty());
  CHECK(hook_state_of(11, all).size() == 1);
}

}  // namespace
}  // namespace lockstep

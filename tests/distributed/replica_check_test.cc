#include "lockstep/distributed/replica_check.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/thread_group.h"

#include <doctest/doctest.h>

#include <mutex>
#include <set>
#include <string>

namespace lockstep {
namespace {

std::vector<NamedParameter> parameters() {
  return {{"a", Variable(Tensor::from<float>({1, 2, 3}, {3}), true)},
          {"b", Variable(Tensor::from<double>({4, 5}, {2}), true)},
          {"c", Variable(Tensor::from<float>({6}, {1}), true)}};
}

/// Flips the lowest bit of the last element.
void damage(const NamedParameter& named) {
  Tensor values = named.parameter.data();
  values.mutable_raw()[values.nbytes() - size_of(values.dtype())] ^= std::byte{1};
}

TEST_CASE("every byte counts in the hash, and the length") {
  std::set<uint64_t> hashes;
  for (int64_t n = 0; n <= 19; ++n) {
    Tensor tensor = Tensor::zeros({n}, DType::kU8);
    hashes.insert(hash_of_bytes(tensor));
    for (int64_t i = 0; i < n; ++i) {
      tensor.mutable_data<uint8_t>()[i] = 1;
      hashes.insert(hash_of_bytes(tensor));
      tensor.mutable_data<uint8_t>()[i] = 0;
    }
  }
  CHECK(hashes.size() == 20 + 19 * 20 / 2);
}

TEST_CASE("the first tensor that differs, and the odd rank") {
  struct Case {
    std::vector<int> damaged;  // ranks
    size_t parameter;
    int ranks;
    int blamed;
    bool from_most;
  };
  for (const Case& c :
       {Case{{1}, 1, 3, 1, true}, Case{{0}, 0, 3, 0, true}, Case{{0}, 2, 4, 0, true},
        Case{{1}, 2, 2, 1, false}, Case{{0}, 1, 2, 1, false}, Case{{2, 3}, 1, 4, 2, false}}) {
    spawn(c.ranks, [&](ProcessGroup& group) {
      const auto mine = parameters();
      check(!first_replica_difference(values_of(mine), group), "they are equal");
      for (const int rank : c.damaged) {
        if (rank == group.rank()) damage(mine[c.parameter]);
      }
      if (group.rank() == c.damaged[0] && c.parameter < 2) damage(mine[2]);  // a later one
      const auto difference = first_replica_difference(values_of(mine), group);
      check(difference.has_value(), "nothing was found");
      check(difference->tensor == mine[c.parameter].name, "it names ", difference->tensor);
      check(difference->rank == c.blamed, "it blames rank ", difference->rank);
      check(difference->from_most == c.from_most, "from most: ", difference->from_most);
    });
  }
}

TEST_CASE("require_equal_replicas throws on every rank, with one text") {
  std::mutex mutex;
  std::set<std::string> texts;
  spawn(3, [&](ProcessGroup& group) {
    const auto mine = parameters();
    require_equal_replicas(mine, group, "after step 1");
    if (group.rank() == 2) damage(mine[1]);
    try {
      require_equal_replicas(mine, group, "after step 2");
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      texts.insert(error.what());
      return;
    }
    throw Error("nothing was thrown");
  });
  CHECK(texts == std::set<std::string>{
                     "replica check: after step 2 the ranks no longer hold one model: b on rank 2 "
                     "is not that of the other ranks; docs/what_goes_wrong.md lists what does "
                     "that"});
}

}  // namespace
}  // namespace lockstep

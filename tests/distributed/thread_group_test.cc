#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/tests/distributed/collectives.h"

#include <doctest/doctest.h>

#include <random>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

std::function<void(int, int64_t)> random_delay() {
  return [](int rank, int64_t sequence) {
    std::mt19937 random(static_cast<unsigned>(sequence * 64 + rank));
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
  };
}

std::string error_of(int n, const std::function<void(ProcessGroup&)>& fn,
                     const ThreadGroupOptions& options = {}) {
  try {
    spawn(n, fn, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("single: collectives") {
  const auto group = make_single_group();
  testing::check_collectives(*group);
  testing::check_ring_and_split(*group);
  CHECK_THROWS_AS(group->send(Tensor::zeros({1}, DType::kF32), 0), ArgumentError);
  group->abort("enough");
  CHECK_THROWS_WITH_AS(group->barrier(), "barrier(): the group has failed already: enough",
                       CommError);
}

TEST_CASE("threads: collectives, 1 to 4 ranks with random delays") {
  for (int n = 1; n <= 4; ++n) {
    CAPTURE(n);
    spawn(n, testing::check_collectives, {.delay = random_delay()});
    spawn(n, testing::check_ring_and_split, {.delay = random_delay()});
  }
}

TEST_CASE("threads: sums go in rank order, bf16 in f32") {
  spawn(3, [](ProcessGroup& group) {
    const float values[] = {1e8f, -1e8f, 1};
    Tensor t = Tensor::from<float>({values[group.rank()]}, {1});
    group.all_reduce(t)->wait();
    if (t.item() != 1) throw Error(str("wanted (1e8 - 1e8) + 1 = 1, got ", t.item()));
    // 256 + 1 + 1: bf16 has 8 bits, so rounding after each addition would stay at 256.
    Tensor b = Tensor::from<bf16>({bf16(group.rank() == 0 ? 256.f : 1.f)}, {1});
    group.all_reduce(b)->wait();
    if (b.item() != 258) throw Error(str("wanted 258, got ", b.item()));
  });
}

TEST_CASE("threads: a difference throws on every rank and names both calls") {
  auto groups = make_thread_groups(3);
  std::vector<std::string> messages(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      auto& group = *groups[static_cast<size_t>(r)];
      group.barrier()->wait();
      try {
        group.all_reduce(Tensor::zeros({r == 2 ? 7 : 5}, DType::kF32))->wait();
      } catch (const CommError& e) {
        messages[static_cast<size_t>(r)] = e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
  for (int r = 0; r < 3; ++r) {
    CHECK(messages[static_cast<size_t>(r)] ==
          "ProcessGroup: the ranks disagree on operation 1: rank 0 calls all_reduce(sum, f32, 5 "
          "elements), rank 2 calls all_reduce(sum, f32, 7 elements); every rank must make the same "
          "calls in the same order");
    CHECK_THROWS_AS(groups[static_cast<size_t>(r)]->barrier(), CommError);
  }
}

TEST_CASE("threads: dtype, operation, root and letters are compared") {
  const auto tensor = [](DType d) { return Tensor::zeros({4}, d); };
  CHECK(contains(error_of(2,
                          [&](ProcessGroup& g) {
                            g.all_reduce(tensor(g.rank() ? DType::kF64 : DType::kF32))->wait();
                          }),
                 "all_reduce(sum, f64, 4 elements)"));
  CHECK(contains(error_of(2,
                          [&](ProcessGroup& g) {
                            (g.rank() ? g.barrier() : g.broadcast(tensor(DType::kU8), 1))->wait();
                          }),
                 "broadcast(u8, 4 elements, root 1), rank 1 calls barrier()"));
  CHECK(contains(
      error_of(2, [&](ProcessGroup& g) { g.broadcast(tensor(DType::kU8), g.rank())->wait(); }),
      "root 0), rank 1 calls broadcast(u8, 4 elements, root 1)"));
  CHECK(contains(error_of(2,
                          [&](ProcessGroup& g) {
                            Tensor t = Tensor::zeros({4 + g.rank()}, DType::kI32);
                            (g.rank() ? g.recv(t, 0) : g.send(t, 1))->wait();
                          }),
                 "send(i32, 4 elements, to 1), rank 1 calls recv(i32, 5 elements, from 0)"));
}

TEST_CASE("spawn: who failed is told, not who heard of it first") {
  const auto fn = [](ProcessGroup& group) {
    if (group.rank() > 0) throw CommError("a peer was lost or is late: rank 0 failed");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    throw ArgumentError("the cause");
  };
  CHECK_THROWS_WITH_AS(spawn(3, fn), "rank 0: the cause", ArgumentError);
}

TEST_CASE("spawn: the first exception, with its rank; the others do not hang") {
  CHECK_THROWS_WITH_AS(spawn(3,
                             [](ProcessGroup& g) {
                               if (g.rank() == 1) throw IoError("no such file");
                               g.barrier()->wait();
                             }),
                       "rank 1: no such file", IoError);
  // A rank that only returns is missed at once, not at the timeout.
  CHECK(contains(error_of(2,
                          [](ProcessGroup& g) {
                            if (g.rank() == 0) g.barrier()->wait();
                          }),
                 "barrier(): rank 1 has left the group"));
}

TEST_CASE("threads: a late rank is named") {
  const std::string message = error_of(3,
                                       [](ProcessGroup& g) {
                                         if (g.rank() == 1)
                                           std::this_thread::sleep_for(milliseconds(300));
                                         g.barrier()->wait();
                                       },
                                       {.timeout = milliseconds(50)});
  CHECK(contains(message, "barrier(): rank 1 did not arrive within 50 ms"));
}

TEST_CASE("threads: wait_host has a deadline, abort ends what is in flight") {
  auto groups = make_thread_groups(2);
  const WorkPtr work = groups[0]->barrier();
  CHECK_THROWS_AS(work->wait_host(milliseconds(10)), CommError);
  CHECK_FALSE(work->done());
  groups[1]->abort("the user has had enough");
  CHECK_THROWS_WITH_AS(work->wait(), "the user has had enough", CommError);
  CHECK_THROWS_AS(groups[0]->barrier(), CommError);
  // Destroyed with an operation in flight.
  auto others = make_thread_groups(2);
  const WorkPtr pending = others[0]->barrier();
  others[0].reset();
  CHECK_THROWS_AS(pending->wait(), CommError);
}

TEST_CASE("groups: wrong arguments") {
  spawn(2, [](ProcessGroup& g) {
    const Tensor t = Tensor::zeros({4}, DType::kF32);
    CHECK_THROWS_AS(g.all_reduce(Tensor()), ArgumentError);
    CHECK_THROWS_AS(g.broadcast(t, 2), ArgumentError);
    CHECK_THROWS_AS(g.broadcast(t, -1), ArgumentError);
    CHECK_THROWS_AS(g.send(t, g.rank()), ArgumentError);
    CHECK_THROWS_AS(g.all_gather(t, Tensor::zeros({3}, DType::kF32)), ArgumentError);
    CHECK_THROWS_AS(g.all_gather(t, Tensor::zeros({2}, DType::kF64)), ArgumentError);
    CHECK_THROWS_AS(g.reduce_scatter(t, t), ArgumentError);
    CHECK_THROWS_AS(g.all_to_all(t, t), ArgumentError);
    CHECK_THROWS_AS(g.all_to_all(Tensor::zeros({3}, DType::kF32), Tensor::zeros({3}, DType::kF32)),
                    ArgumentError);
    g.barrier()->wait();
  });
  CHECK_THROWS_AS(spawn(0, [](ProcessGroup&) {}), ArgumentError);
}

}  // namespace
}  // namespace lockstep

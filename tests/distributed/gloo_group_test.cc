// Gloo with ranks as threads: each has a context of its own and they talk over loopback. What only
// processes show is in gloo_process_test.cc.
#include "lockstep/distributed/comm/gloo_group.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/distributed/collectives.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <random>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Groups = std::vector<std::unique_ptr<ProcessGroup>>;

/// Runs fn(group) on n threads; returns each rank's error, "" for none.
std::vector<std::string> run(int n, const std::function<void(ProcessGroup&)>& fn,
                             GlooGroupOptions options = {},
                             const std::function<std::string(int)>& host = nullptr) {
  auto server = std::make_shared<TcpStore>(TcpStoreOptions{.serve = true, .token = "t", .rank = 0});
  std::vector<std::string> errors(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r, options]() mutable {
      try {
        if (host) options.host = host(r);
        const std::shared_ptr<Store> store =
            r == 0 ? server
                   : std::make_shared<TcpStore>(
                         TcpStoreOptions{.port = server->port(), .token = "t", .rank = r});
        const auto group = make_gloo_group(store, "g", r, n, options);
        fn(*group);
      } catch (const std::exception& e) {
        errors[static_cast<size_t>(r)] = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return errors;
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("gloo: collectives, 1 to 4 ranks") {
  for (int n = 1; n <= 4; ++n) {
    for (const std::string& error : run(n, [](ProcessGroup& g) {
           testing::check_collectives(g);
           testing::check_ring_and_split(g);
         })) {
      CAPTURE(n);
      CHECK(error == "");
    }
  }
}

TEST_CASE("gloo: the same bits on every rank and in every run") {
  const int64_t n = 100'003;
  for (const std::string& error : run(3, [&](ProcessGroup& g) {
         std::mt19937 random(static_cast<unsigned>(g.rank()));
         std::normal_distribution<float> normal;
         std::vector<float> values(static_cast<size_t>(n));
         for (float& v : values) v = normal(random);
         const Tensor first = Tensor::from(values, {n});
         const Tensor second = Tensor::from(values, {n});
         g.all_reduce(first)->wait();
         g.all_reduce(second)->wait();
         Tensor all = Tensor::empty({g.size(), n}, DType::kF32);
         g.all_gather(all, first)->wait();
         for (int r = 0; r < g.size(); ++r) {
           if (std::memcmp(all.slice(r, r + 1).raw(), second.raw(), second.nbytes()) != 0) {
             throw Error("the bits differ");
           }
         }
       })) {
    CHECK(error == "");
  }
}

TEST_CASE("gloo: a difference throws on every rank, names both calls and ends nothing") {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const auto errors = run(3, [](ProcessGroup& g) {
      g.barrier()->wait();
      const WorkPtr work = g.all_reduce(Tensor::zeros({g.rank() == 1 ? 2000 : 1000}, DType::kF32));
      std::string message;
      try {
        work->wait();
      } catch (const CommError& e) {
        message = e.what();
      }
      CHECK_THROWS_AS(g.barrier(), CommError);
      throw Error(message);
    });
    for (const std::string& error : errors) {
      CHECK(error ==
            "ProcessGroup: the ranks disagree on operation 1: rank 0 calls all_reduce(sum, f32, "
            "1000 elements), rank 1 calls all_reduce(sum, f32, 2000 elements); every rank must "
            "make the same calls in the same order");
    }
  }
  const auto letters = run(2, [](ProcessGroup& g) {
    const Tensor t = Tensor::zeros({5}, g.rank() ? DType::kI64 : DType::kF64);
    (g.rank() ? g.recv(t, 0) : g.send(t, 1))->wait();
  });
  for (const std::string& error : letters) {
    CHECK(contains(error, "send(f64, 5 elements, to 1)"));
    CHECK(contains(error, "recv(i64, 5 elements, from 0)"));
  }
}

TEST_CASE("gloo: a rank that leaves, one that aborts, one that is late") {
  const auto start = steady_clock::now();
  auto errors = run(3, [](ProcessGroup& g) {
    g.barrier()->wait();
    if (g.rank() == 2) return;
    g.all_reduce(Tensor::zeros({1000}, DType::kF32))->wait();
  });
  CHECK(contains(errors[0], "a peer was lost"));
  CHECK(contains(errors[1], "a peer was lost"));
  CHECK(contains(errors[0] + errors[1], "gone so far: rank"));
  CHECK(errors[2] == "");

  errors = run(3, [](ProcessGroup& g) {
    g.barrier()->wait();
    const auto reduce = [&] { return g.all_reduce(Tensor::zeros({1000}, DType::kF32)); };
    const WorkPtr pending = g.rank() == 0 ? nullptr : reduce();
    if (g.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(50));
      g.abort("enough");  // while its own worker waits
    }
    if (g.rank() == 0) std::this_thread::sleep_for(milliseconds(200));
    (pending ? pending : reduce())->wait();
  });
  CHECK(errors[0] != "");
  CHECK(contains(errors[1], "a peer was lost"));
  CHECK(errors[2] != "");
  CHECK(steady_clock::now() - start < milliseconds(5000));

  errors = run(2,
               [](ProcessGroup& g) {
                 if (g.rank() == 1) std::this_thread::sleep_for(milliseconds(600));
                 g.barrier()->wait();
               },
               {.timeout = milliseconds(200)});
  CHECK(contains(errors[0], "barrier(): a peer was lost or is late: "));
  CHECK(errors[1] != "");
}

TEST_CASE("gloo: a group that is destroyed with operations in flight does not hang") {
  const auto start = steady_clock::now();
  run(2, [](ProcessGroup& g) {
    if (g.rank() == 0) {
      for (int i = 0; i < 5; ++i) g.all_reduce(Tensor::zeros({1 << 20}, DType::kF32));
      std::this_thread::sleep_for(milliseconds(20));
    } else {
      std::this_thread::sleep_for(milliseconds(500));
    }
  });
  CHECK(steady_clock::now() - start < milliseconds(5000));
}

TEST_CASE("gloo: a rank may leave right after its last operation") {
  for (int attempt = 0; attempt < 50; ++attempt) {
    for (const std::string& error : run(3, [](ProcessGroup& g) {
           g.all_reduce(Tensor::zeros({100'000}, DType::kF32))->wait();
         })) {
      REQUIRE(error == "");
    }
  }
}

TEST_CASE("gloo: a group that nobody watches works, and fails, all the same") {
  const GlooGroupOptions unwatched{.timeout = milliseconds(5000), .observed = false};
  for (const std::string& error : run(
           3,
           [](ProcessGroup& g) {
             testing::check_collectives(g);
             testing::check_ring_and_split(g);
           },
           unwatched)) {
    CHECK(error == "");
  }
  const auto errors = run(
      3,
      [](ProcessGroup& g) {
        if (g.rank() == 1) throw Error("leaves");
        g.barrier()->wait();
      },
      unwatched);
  for (const size_t r : {0, 2}) {
    CHECK_MESSAGE(contains(errors[r], "barrier(): a peer was lost or is late: "), errors[r]);
  }
}

TEST_CASE("gloo: a rank that cannot connect says why to all") {
  const auto begin = steady_clock::now();
  const auto errors = run(
      3, [](ProcessGroup&) {}, {}, [](int r) { return r == 1 ? "203.0.113.7" : "127.0.0.1"; });
  CHECK(steady_clock::now() - begin < milliseconds(5000));
  CHECK(contains(errors[1], "make_gloo_group: cannot connect the ranks from 203.0.113.7: "));
  for (const size_t r : {0, 2}) {
    CHECK_MESSAGE(contains(errors[r], "a peer was lost or is late: rank 1 failed: "), errors[r]);
  }
}

TEST_CASE("gloo: a rank that never comes") {
  TcpStore store({.serve = true, .token = "t"});
  std::shared_ptr<Store> shared(&store, [](Store*) {});
  CHECK_THROWS_AS(make_gloo_group(shared, "g", 0, 2, {.start_timeout = milliseconds(100)}),
                  CommError);
  CHECK_THROWS_AS(make_gloo_group(shared, "g", 2, 2), ArgumentError);
}

}  // namespace
}  // namespace lockstep

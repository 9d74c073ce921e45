#include "lockstep/distributed/comm/emulated_link.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/tests/distributed/collectives.h"
#include "lockstep/tests/distributed/rank_groups.h"

#include <doctest/doctest.h>

#include <ctime>
#include <functional>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using testing::GroupPtr;
using testing::kHostBackends;
using testing::run_all_well;
using testing::run_ranks;

nanoseconds length(const WorkPtr& work) {
  work->wait();
  return nanoseconds(work->times().finish_ns - work->times().start_ns);
}

TEST_CASE("parse_link: rates, options, and text of it") {
  CHECK(parse_link("1gbit") == LinkSpec{});
  CHECK(parse_link("2.5mbit").gbit_per_s == doctest::Approx(2.5e-3));
  CHECK(parse_link("64kbit").gbit_per_s == doctest::Approx(64e-6));
  const LinkSpec all = parse_link("10gbit,straggler=1:20ms,latency=50us,seed=7,jitter=0.1");
  CHECK(all == LinkSpec{.gbit_per_s = 10,
                        .latency = microseconds(50),
                        .jitter = 0.1,
                        .seed = 7,
                        .straggler = 1,
                        .straggler_delay = milliseconds(20)});
  CHECK(parse_link("1gbit,latency=1.5ms").latency == microseconds(1500));
  CHECK(parse_link("1gbit,straggler=0:2s").straggler_delay == milliseconds(2000));
  CHECK(to_string(LinkSpec{.latency = microseconds(50)}) == "1 Gbit/s, 50 us");
  CHECK(to_string(all) == "10 Gbit/s, 50 us, jitter 0.1 (seed 7), rank 1 20 ms late");
}

TEST_CASE("parse_link: what is wrong is named") {
  const auto refuses = [](const char* text, const char* because) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_link(text), doctest::Contains(because), ArgumentError);
  };
  refuses("", "'' has no number");
  refuses("fast", "'fast' has no number");
  refuses("1", "'1' is not a rate in gbit");
  refuses("1gbyte", "'1gbyte' is not a rate");
  refuses("0gbit", "not a positive rate");
  refuses("-1gbit", "not a positive rate");
  refuses("1e-7gbit", "at least 1e-6 Gbit/s");
  refuses("nangbit", "not finite");
  refuses("infgbit", "not finite");
  refuses("1e999gbit", "has no number, or one out of range");
  refuses("1gbit,", "'' is none of latency");
  refuses("1gbit,speed=1", "'speed=1' is none of");
  refuses("1gbit,latency", "'latency' has no number");
  refuses("1gbit,latency=50", "not a time in us, ms or s");
  refuses("1gbit,latency=-5us", "between 0 and an hour");
  refuses("1gbit,latency=1e9s", "between 0 and an hour");
  refuses("1gbit,latency=nanus", "not finite");
  refuses("1gbit,latency=1us,latency=2us", "twice");
  refuses("1gbit,jitter=0.1x", "more than a number");
  refuses("1gbit,jitter=-0.1", "between 0 and 100");
  refuses("1gbit,seed=-1", "has no number");
  refuses("1gbit,straggler=1", "RANK:DELAY");
  refuses("1gbit,straggler=-1:5ms", "negative rank");
  refuses("1gbit,straggler=1:5us", "whole milliseconds");
  refuses("1gbit latency=5us", "is not a rate");
}

TEST_CASE("link_time: the formulas, by hand") {
  // 1 Gbit/s: 8 ns for a byte. 3 ranks, 3000 bytes: W = 24 us; L = 100 us.
  const LinkSpec link{.gbit_per_s = 1, .latency = microseconds(100)};
  const auto us = [&](LinkUse use, int ranks) { return link_time(link, use, ranks, 3000) / 1e3; };
  using Us = std::chrono::duration<double, std::nano>;
  CHECK(us(LinkUse::kAllReduce, 3) == Us(2 * (16 + 200)));
  CHECK(us(LinkUse::kReduceScatter, 3) == Us(16 + 200));
  CHECK(us(LinkUse::kAllGather, 3) == Us(16 + 200));
  CHECK(us(LinkUse::kAllToAll, 4) == Us(18 + 300));
  CHECK(us(LinkUse::kBroadcast, 3) == Us(2 * (24 + 100)));
  CHECK(us(LinkUse::kBroadcast, 4) == Us(2 * (24 + 100)));
  CHECK(us(LinkUse::kBroadcast, 5) == Us(3 * (24 + 100)));
  CHECK(us(LinkUse::kBarrier, 2) == Us(100));
  CHECK(us(LinkUse::kLetter, 3) == Us(24 + 100));
  CHECK(us(LinkUse::kAllReduce, 1) == Us(0));
}

TEST_CASE("link: results are unchanged, the backend says what it is") {
  const LinkSpec link = parse_link("10gbit,latency=2us,jitter=0.5,straggler=1:1ms");
  const GroupPtr single = make_emulated_link(make_single_group(), {});
  testing::check_collectives(*single);
  for (const std::string& backend : kHostBackends) {
    run_all_well(backend, 3, [&](GroupPtr group) {
      group = make_emulated_link(std::move(group), link);
      const std::string wanted =
          "emulated 10 Gbit/s, 2 us, jitter 0.5 (seed 0), rank 1 1 ms late over " + backend;
      if (group->backend() != wanted) throw Error(group->backend());
      testing::check_collectives(*group);
      testing::check_ring_and_split(*group);
    });
  }
}

TEST_CASE("link: an operation takes the model's time, asleep, and times() span it") {
  // 0.1 Gbit/s: 10 us for 125 bytes. all_reduce of 300 kB by 3 ranks: 32 ms + 4 ms.
  const LinkSpec link{.gbit_per_s = 0.1, .latency = milliseconds(1)};
  for (const std::string& backend : kHostBackends) {
    run_all_well(backend, 3, [&](GroupPtr group) {
      group = make_emulated_link(std::move(group), link);
      const int64_t n = 75'000;
      const Tensor t = Tensor::zeros({n}, DType::kF32);
      const Tensor all = Tensor::zeros({3, n}, DType::kF32);
      const auto expect = [&](const char* what, double ms, const std::function<WorkPtr()>& issue) {
        double least = 1e9;  // a machine with other work is late now and then
        for (int i = 0; i < 3; ++i) {
          const double took = std::chrono::duration<double, std::milli>(length(issue())).count();
          if (took < ms) throw Error(str(what, ": wanted ", ms, " ms, took ", took));
          least = std::min(least, took);
        }
        if (least > 1.5 * ms + 10) throw Error(str(what, ": wanted ", ms, " ms, took ", least));
      };
      const Tensor exchanged = Tensor::zeros({3, n}, DType::kF32);
      expect("all_reduce", 36, [&] { return group->all_reduce(t, ReduceOp::kSum); });
      expect("reduce_scatter", 50, [&] { return group->reduce_scatter(t, all, ReduceOp::kSum); });
      expect("all_gather", 50, [&] { return group->all_gather(all, t); });
      expect("all_to_all", 50, [&] { return group->all_to_all(exchanged, all); });
      expect("broadcast", 50, [&] { return group->broadcast(t, 1); });
      expect("barrier", 2, [&] { return group->barrier(); });
      if (group->rank() == 0) expect("send", 25, [&] { return group->send(t, 1); });
      if (group->rank() == 1) expect("recv", 25, [&] { return group->recv(t, 0); });
      // Two in flight share the link.
      const WorkPtr first = group->all_reduce(t, ReduceOp::kSum);
      const WorkPtr second = group->all_reduce(all.slice(0, 1), ReduceOp::kSum);
      second->wait();
      if (!first->done() || second->times().start_ns < first->times().finish_ns) {
        throw Error("two operations at once");
      }
    });
  }
}

TEST_CASE("link: the worker sleeps while the link is busy") {
  const std::clock_t before = std::clock();  // of all threads of the process
  run_all_well("threads", 3, [&](GroupPtr group) {
    group = make_emulated_link(std::move(group), {.latency = milliseconds(50)});
    group->all_reduce(Tensor::zeros({1}, DType::kF32), ReduceOp::kSum)->wait();  // 200 ms
  });
  CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 0.1);
}

TEST_CASE("link: jitter lengthens each collective by its own draw, the same on every rank") {
  LinkSpec link{.latency = milliseconds(2), .jitter = 4, .seed = 0};
  // A seed whose first draw is the least: a group that draws it again and again is too fast.
  const auto least_of = [&] {
    double least = 5;
    for (int64_t i = 0; i < 8; ++i) least = std::min(least, link_jitter(link, i));
    return least;
  };
  while (link_jitter(link, 0) > least_of()) ++link.seed;
  const double least = least_of();
  double most = 1;
  for (int64_t i = 0; i < 8; ++i) {
    most = std::max(most, link_jitter(link, i));
    CHECK(link_jitter({.jitter = 4, .seed = link.seed + 1}, i) != link_jitter(link, i));
  }
  CHECK(least >= 1);
  CHECK(least < 2.5);
  CHECK(most > 3.5);
  CHECK(most <= 5);
  run_all_well("threads", 3, [&](GroupPtr group) {
    group = make_emulated_link(std::move(group), link);
    const Tensor t = Tensor::zeros({1}, DType::kU8);
    for (int64_t i = 0; i < 8; ++i) {
      const auto wanted = link_time(link, LinkUse::kBarrier, 3, 0) * link_jitter(link, i);
      if (length(group->barrier()) < wanted - nanoseconds(1)) throw Error(str("draw ", i));
      // Letters, which rank 2 has none of, take no draw.
      if (group->rank() == 0) group->send(t, 1)->wait();
      if (group->rank() == 1) group->recv(t, 0)->wait();
    }
  });
}

TEST_CASE("link: a straggler holds up the others, also in its part of a split") {
  run_all_well("threads", 3, [](GroupPtr group) {
    group = make_emulated_link(std::move(group),
                               {.straggler = 2, .straggler_delay = milliseconds(200)});
    const auto ms_of_barrier = [](ProcessGroup& g) {
      const auto start = steady_clock::now();
      g.barrier()->wait();
      return duration_cast<milliseconds>(steady_clock::now() - start).count();
    };
    if (ms_of_barrier(*group) < 190) throw Error("nobody was late");
    // Rank 2 becomes rank 0 of the second part; the first part has no straggler.
    const auto part = group->split(group->rank() == 0 ? 0 : 1, -group->rank());
    const auto ms = ms_of_barrier(*part);
    if (group->rank() > 0 && ms < 190) throw Error("nobody was late in the part");
    if (group->rank() == 0 && ms > 150) throw Error("a rank was late alone");
  });
}

TEST_CASE("link: abort and destruction end the sleep, a lost peer ends the wait") {
  const auto start = steady_clock::now();
  const LinkSpec slow{.latency = std::chrono::seconds(600)};
  for (const std::string& backend : kHostBackends) {
    CAPTURE(backend);
    auto errors = run_ranks(backend, 3, [&](GroupPtr group) {
      group = make_emulated_link(std::move(group), slow);
      const WorkPtr work = group->barrier();
      if (group->rank() == 1) {
        std::this_thread::sleep_for(milliseconds(20));
        group->abort("enough");
        work->wait();
      }
      CHECK_THROWS_AS(work->wait_host(milliseconds(30)), CommError);
      group.reset();
      work->wait();
    });
    for (const std::string& error : errors) CHECK(error != "");
    errors = run_ranks(backend, 3, [&](GroupPtr group) {
      group = make_emulated_link(std::move(group), {});
      group->barrier()->wait();
      if (group->rank() == 0) group->barrier()->wait();
    });
    CHECK(errors[0] != "");
  }
  // A straggler that is asleep.
  run_ranks("threads", 2, [&](GroupPtr group) {
    group = make_emulated_link(std::move(group),
                               {.straggler = 0, .straggler_delay = std::chrono::minutes(10)});
    const WorkPtr work = group->barrier();
    if (group->rank() == 0) group->abort("enough");
    CHECK_THROWS_AS(work->wait(), CommError);
  });
  CHECK(steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("link: wrong ones are refused") {
  CHECK_THROWS_AS(make_emulated_link(nullptr, {}), ArgumentError);
  const auto refuses = [](const LinkSpec& link) {
    CHECK_THROWS_AS(make_emulated_link(make_single_group(), link), ArgumentError);
  };
  refuses({.gbit_per_s = 0});
  refuses({.latency = microseconds(-1)});
  refuses({.jitter = -1});
  refuses({.straggler = 1});
}

}  // namespace
}  // namespace lockstep

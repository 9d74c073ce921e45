// Which of a problem's plans is taken, with plans and times that are made up.
#include "lockstep/tensor/cuda/cudnn/choose_plan.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace cuda;

struct FakePlan {
  std::string name_;
  int64_t workspace = 0;
  const std::string& name() const { return name_; }
  int64_t workspace_bytes() const { return workspace; }
};

/// What suggests and times plans, and counts.
struct Bench {
  std::vector<FakePlan> suggested;
  std::map<std::string, std::vector<int64_t>> times =
      {};  // each run's in turn; negative: cannot run
  std::map<std::string, size_t> runs = {};
  size_t most = 0;  // that was asked for

  std::string choose(const std::string& problem, PlanBook& book, bool timed) {
    const auto plan = choose_plan<FakePlan>(
        problem, book,
        [&](const PlanWanted& wanted) {
          most = wanted.most;
          std::vector<std::unique_ptr<FakePlan>> plans;
          for (const FakePlan& plan : suggested) {
            if (plans.size() == wanted.most) break;
            if (wanted.name.empty() || wanted.name == plan.name_) {
              plans.push_back(std::make_unique<FakePlan>(plan));
            }
          }
          return plans;
        },
        timed ? [&](const FakePlan& plan) { return time(plan); }
              : std::function<std::optional<int64_t>(const FakePlan&)>());
    return plan == nullptr ? "none" : plan->name();
  }
  std::optional<int64_t> time(const FakePlan& plan) {
    const std::vector<int64_t>& all = times.at(plan.name());
    const int64_t took = all[std::min(runs[plan.name()]++, all.size() - 1)];
    return took < 0 ? std::nullopt : std::optional(took);
  }
};

TEST_CASE("without timing the first suggestion is taken, and nothing is run or noted") {
  Bench bench{.suggested = {{"a"}, {"b"}}};
  PlanBook book;
  CHECK(bench.choose("p", book, false) == "a");
  CHECK(bench.most == 1);
  CHECK(bench.runs.empty());
  CHECK(book.entries().empty());
  CHECK(Bench{}.choose("p", book, false) == "none");
}

TEST_CASE("the fastest is taken, by its least time after a first run that does not count") {
  Bench bench{.suggested = {{"a"}, {"b"}, {"c"}},
              .times = {{"a", {1, 100, 100, 100}},   // fast only before it counts
                        {"b", {900, 120, 80, 300}},  // once undisturbed
                        {"c", {90, 90, 90, 90}}}};
  PlanBook book;
  CHECK(bench.choose("p", book, true) == "b");
  for (const char* name : {"a", "b", "c"}) CHECK(bench.runs[name] == 4);
  CHECK(book.entries() == PlanBook::Entries{{"p", "b"}});
  CHECK(book.noted() == 1);
}

TEST_CASE("no more than a few are asked for") {
  Bench bench;
  for (int i = 0; i < 9; ++i) {
    bench.suggested.push_back({std::string(1, static_cast<char>('a' + i))});
    bench.times[bench.suggested.back().name_] = {100 - 10 * i};
  }
  PlanBook book;
  CHECK(bench.choose("p", book, true) == "e");
  CHECK(bench.most == kMostTimed);
  CHECK(bench.runs.size() == kMostTimed);
}

TEST_CASE("a difference within the noise leaves the earlier suggestion") {
  PlanBook book;
  Bench close{.suggested = {{"a"}, {"b"}}, .times = {{"a", {1000}}, {"b", {985}}}};
  CHECK(close.choose("p", book, true) == "a");
  Bench clear{.suggested = {{"a"}, {"b"}}, .times = {{"a", {1000}}, {"b", {975}}}};
  CHECK(clear.choose("q", book, true) == "b");
}

TEST_CASE("what cannot run is passed over; where nothing can, the first is left to say why") {
  PlanBook book;
  Bench some{.suggested = {{"a"}, {"b"}, {"c"}},
             .times = {{"a", {-1}}, {"b", {50}}, {"c", {10, 10, -1}}}};
  CHECK(some.choose("p", book, true) == "b");
  CHECK(some.runs["a"] == 1);
  CHECK(some.runs["c"] == 3);
  Bench none{.suggested = {{"a"}, {"b"}}, .times = {{"a", {-1}}, {"b", {-1}}}};
  CHECK(none.choose("q", book, true) == "a");
  CHECK(book.entries() == PlanBook::Entries{{"p", "b"}});
}

TEST_CASE("one alone is not run, and what wants much scratch memory is not timed unless first") {
  PlanBook book;
  Bench alone{.suggested = {{"a"}}};
  CHECK(alone.choose("p", book, true) == "a");
  CHECK(alone.runs.empty());
  Bench large{.suggested = {{"a", kMostTimedWorkspace + 1},
                            {"b", kMostTimedWorkspace + 1},
                            {"c", kMostTimedWorkspace}},
              .times = {{"a", {100}}, {"b", {1}}, {"c", {50}}}};
  CHECK(large.choose("q", book, true) == "c");
  CHECK(large.runs.count("b") == 0);
  CHECK(large.runs.count("a") == 1);
}

TEST_CASE(
    "what the book knows is taken without a run, timed or not, and found anew if it is gone") {
  PlanBook book;
  book.add({{"p", "b"}, {"q", "gone"}});
  Bench bench{.suggested = {{"a"}, {"b"}, {"c"}}, .times = {{"a", {3}}, {"b", {2}}, {"c", {1}}}};
  CHECK(bench.choose("p", book, false) == "b");
  CHECK(bench.choose("p", book, true) == "b");
  CHECK(bench.runs.empty());
  CHECK(book.noted() == 0);
  CHECK(bench.choose("q", book, false) == "a");
  CHECK(bench.choose("q", book, true) == "c");
  CHECK(book.find("q") == "c");
  CHECK(book.noted() == 1);
}

TEST_CASE("a book: what was measured here stands before what comes from elsewhere") {
  PlanBook book;
  CHECK(book.find("p") == std::nullopt);
  book.note("p", "here");
  book.add({{"p", "there"}, {"q", "there"}});
  CHECK(book.find("p") == "here");
  CHECK(book.find("q") == "there");
  book.note("q", "here");
  CHECK(book.find("q") == "here");
  CHECK(book.noted() == 2);
  book.clear();
  CHECK(book.entries().empty());
  CHECK(book.noted() == 0);
}

TEST_CASE("a problem's name has all of its numbers") {
  const std::vector<int64_t> key{2, -1, 30};
  CHECK(problem_name("convolution", key) == "convolution 2 -1 30");
}

}  // namespace
}  // namespace lockstep

#include "lockstep/report/verdict.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lockstep::report {
namespace {

/// A step of 100 ms in which all is hidden.
Facts balanced() {
  Facts facts{.step = {}, .buckets = {}, .world_size = 2, .mode = "overlapped", .comm_hook = ""};
  facts.step.wall = 100;
  facts.step.parts = {30, 60, 0, 0, 10, 0};
  facts.step.hidden = 20;
  facts.step.bytes = 40e6;
  for (int b = 0; b < 4; ++b) {
    const double ready = 15 * (b + 1);
    facts.buckets.push_back({.times = {ready, ready, ready, ready + 5, 0, 10e6}, .transfer = 5});
  }
  return facts;
}

/// `lost` ms of the step go to `part` instead of to backward.
Facts with(StepPart part, double lost) {
  Facts facts = balanced();
  facts.step.parts[static_cast<size_t>(part)] = lost;
  facts.step.parts[static_cast<size_t>(StepPart::kBackward)] -= lost;
  facts.exposed = facts.step.of(StepPart::kExposed);
  return facts;
}

void says(const Facts& facts, const char* rule, const char* words) {
  const Verdict verdict = verdict_of(facts);
  CHECK(verdict.rule == rule);
  CHECK_MESSAGE(verdict.what.find(words) != verdict.what.npos, verdict.what);
  for (const std::string& sentence : {verdict.where, verdict.why, verdict.what}) {
    CHECK(sentence.ends_with("."));
    CHECK_MESSAGE(sentence.find(" ?") == sentence.npos, sentence);
    CHECK(sentence.find("nan") == sentence.npos);
  }
}

TEST_CASE("where the time goes: the larger first, the tiny not at all") {
  CHECK(verdict_of(balanced()).where ==
        "A typical step takes 100 ms: 60.0 ms (60 %) backward, 30.0 ms (30 %) forward, 10.0 ms "
        "(10 %) optimizer.");
}

TEST_CASE("nothing is lost") {
  says(balanced(), "compute-bound", "more ranks");
  Facts alone = balanced();
  alone.world_size = 1;
  alone.buckets.clear();
  says(alone, "compute-bound", "--nproc");
  says(with(StepPart::kOptimizer, 30), "optimizer", "--grad-accum-steps 2");
  says(with(StepPart::kExposed, 4), "compute-bound", "more ranks");
}

TEST_CASE("input") { says(with(StepPart::kDataWait, 20), "input-bound", "--workers"); }

TEST_CASE("waiting for ranks") {
  Facts facts = with(StepPart::kPeerWait, 20);
  says(facts, "uneven-ranks", "--batch-size");
  facts.late_rank = 5;
  facts.late = 15;
  says(facts, "slow-rank", "rank 5");
  Facts busy = with(StepPart::kExposed, 20);  // its peers' buckets travel late, but travel
  busy.late_rank = 5;
  busy.late = 15;
  busy.exposed = 5;
  says(busy, "slow-rank", "rank 5");
  facts.late = 1;
  facts.start_delay = 5;
  says(facts, "late-start", "--bucket-cap-mb");
}

TEST_CASE("exposed communication") {
  Facts facts = with(StepPart::kExposed, 20);
  facts.mode = "bucketed";
  says(facts, "not-overlapped", "--ddp-mode overlapped");
  facts.mode = "overlapped";
  facts.step.hidden = 10;
  facts.buckets.back().transfer = 15;
  facts.buckets.back().times.bytes = 30e6;
  says(facts, "tail", "--last-bucket-cap-mb 14.3");

  for (BucketSummary& bucket : facts.buckets) {
    bucket.transfer = 5;
    bucket.times.bytes = 10e6;
  }
  facts.buckets.front().times.launch = 38;
  says(facts, "late-first-bucket", "--first-bucket-cap-mb 2.38");
  facts.buckets.front().times.launch = 5;
  says(facts, "bandwidth-bound", "--comm-hook bf16");
  facts.step.hidden = 60;
  says(facts, "bandwidth-bound", "--grad-accum-steps 2 ");
  facts.comm_hook = "bf16";
  says(facts, "bandwidth-bound", "Try --grad-accum-steps");

  facts.step.hidden = 10;
  facts.buckets.resize(1);
  says(facts, "one-bucket", "--bucket-cap-mb 2.38");
}

TEST_CASE("many small buckets cost their latency") {
  Facts facts = with(StepPart::kExposed, 20);
  facts.buckets.clear();
  for (int b = 0; b < 20; ++b) {
    const double bytes = 1e4 * (1 + b % 3);
    facts.buckets.push_back(
        {.times = {1.0, 1.0, 1.0, 3.0, 0, bytes}, .transfer = 2 + bytes / 1e9 * 1e3});
  }
  says(facts, "latency-bound", "--bucket-cap-mb 1.00");
  CHECK(verdict_of(facts).why.find("each of 20 buckets costs about 2.00 ms") != std::string::npos);
  // A bandwidth alone: nothing is fixed.
  for (BucketSummary& bucket : facts.buckets) bucket.transfer = bucket.times.bytes / 1e4;
  CHECK(verdict_of(facts).rule != "latency-bound");
}

TEST_CASE("no step, no verdict; odd numbers do no harm") {
  CHECK(verdict_of({}).rule == "nothing");
  Facts facts = with(StepPart::kExposed, 50);
  facts.step.parts[1] = 0;
  facts.step.hidden = 0;
  facts.buckets = {{}, {}};
  CHECK(!verdict_of(facts).what.empty());
  CHECK(short_number(0.123) == "0.12");
  CHECK(short_number(9.996) == "10.0");
  CHECK(short_number(123.4) == "123");
  CHECK(short_number(kNever) == "?");
}

}  // namespace
}  // namespace lockstep::report

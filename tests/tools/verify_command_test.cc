#include "lockstep/tests/support/process.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::Process;

struct Ended {
  int code;
  std::string last_line;  // of standard output
  std::string err;
};

Ended verify(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {testing::program_path("tools/lockstep"), "verify"});
  Process process(arguments, {.env = {{"RANK", ""}, {"WORLD_SIZE", ""}}});
  process.ends_within(std::chrono::seconds(240));
  std::string out = process.out();
  while (out.ends_with('\n')) out.pop_back();
  return {process.exit_code(), out.substr(out.find_last_of('\n') + 1), process.err()};
}

TEST_CASE("verify passes with the options of a run") {
  const std::vector<std::vector<std::string>> all = {
      {},
      {"--layer-drop", "0.4", "--model", "resnet20", "--steps", "4"},
      {"--grad-accum-steps", "2", "--clip-grad-norm", "0.5", "--find-unused-parameters"},
      {"--sync-bn", "--no-broadcast-buffers", "--steps", "3"},
      {"--amp", "bf16", "--steps", "4"},
      {"--canonical", "--round-robin", "2", "--static-graph", "--nproc", "4", "--steps", "3"},
      {"--comm-hook", "topk:ratio=0.1", "--steps", "3"},
      {"--model", "bert-tiny", "--grad-accum-steps", "2", "--steps", "2"},
      {"--ddp-mode", "bucketed", "--bucket-caps-mb", "0.01,0.1", "--dtype", "f64", "--steps", "2"},
  };
  for (const auto& arguments : all) {
    const Ended ended = verify(arguments);
    INFO(ended.err);
    CAPTURE(ended.last_line);
    CHECK(ended.code == 0);
    CHECK(ended.last_line.starts_with("PASS largest difference "));
  }
}

TEST_CASE("verify over processes: rounding at three ranks, not a bit at two") {
  for (const char* ranks : {"2", "3"}) {
    const Ended ended = verify({"--backend", "gloo", "--nproc", ranks, "--steps", "3"});
    INFO(ended.err);
    CHECK(ended.code == 0);
    CHECK(ended.last_line.find("PASS largest difference ") != std::string::npos);
  }
  const Ended broken = verify({"--backend", "gloo", "--steps", "2", "--fault", "no-scale"});
  CHECK(broken.code == 1);
  CHECK(broken.last_line.find("FAIL 3 ranks are not one process: conv1.weight, step 1") !=
        std::string::npos);
}

TEST_CASE("a rank that is killed is a failure as others are") {
  const Ended ended = verify({"--backend", "gloo", "--steps", "2", "--fault", "die:rank=1,step=2"});
  CHECK(ended.code == 1);
  CHECK_MESSAGE(ended.err.find("rank 1 was killed by signal 9") != std::string::npos, ended.err);
}

TEST_CASE("what cannot be verified is a wrong usage") {
  for (const auto& [arguments, words] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--ddp-mode", "local"}, "there is nothing to verify"},
           {{"--nproc", "1"}, "--nproc"},
           {{"--model", "resnet9"}, "--model"},
           {{"--model", "bert-tiny", "--sync-bn"}, "are for ResNets"},
           {{"--fault", "nan:rank=3"}, "the ranks are 0 to 2"},
           {{"--fault", "die"}, "use processes"},
           {{"--layer-drop", "0.5", "--static-graph"}, "--layer-drop"},
       }) {
    const Ended ended = verify(arguments);
    CAPTURE(words);
    CHECK(ended.code == 2);
    CHECK_MESSAGE(ended.err.find(words) != std::string::npos, ended.err);
  }
}

}  // namespace
}  // namespace lockstep

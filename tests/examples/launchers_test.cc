// The same command under each launcher trains the same model, to the same bits.
#include "lockstep/tests/examples/same_bits.h"

#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/support/eventually.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>

namespace lockstep {
namespace {

using testing::Env;
using testing::is_in_path;
using testing::Process;
using testing::short_training;

// By these names, because either may be mpirun.
constexpr const char* kOpenMpi = "mpirun.openmpi";
constexpr const char* kMpich = "mpiexec.hydra";
constexpr int kRanks = 3;
constexpr int kSkipped = 77;

const std::string& expected() {
  static const std::string bytes = testing::checkpoint_by_nproc(kRanks);
  return bytes;
}

uint16_t free_port() { return TcpStore({.serve = true, .token = "t"}).port(); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A user's home without a secret yet, and nothing else that tells of ranks.
Env clean(const testing::TempDir& dir) {
  Env env = {{"HOME", dir / "home"}};
  for (const char* name :
       {"XDG_CONFIG_HOME", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
        "MASTER_PORT", "LOCKSTEP_TOKEN", "LOCKSTEP_TOKEN_FILE", "LOCKSTEP_INIT_METHOD"}) {
    env.push_back({name, ""});
  }
  return env;
}

/// Trains by one command that starts all ranks; what is wrong with the result, if anything.
std::string train_by(std::vector<std::string> launcher, const testing::TempDir& dir) {
  const std::vector<std::string> program = short_training(dir / "run");
  launcher.insert(launcher.end(), program.begin(), program.end());
  Process run(launcher, {.env = clean(dir)});
  const int code = run.wait(testing::kDeadline);
  if (code == kSkipped) return run.out();
  if (code != 0) return "exit code " + std::to_string(code) + "\n" + run.out() + run.err();
  if (!contains(run.out(), "3 processes (gloo) x 1 thread; ")) return "other ranks:\n" + run.out();
  return testing::read_text(dir / "run/last.safetensors") == expected() ? "" : "other bits";
}

/// Trains by a command for each rank, with these variables.
std::string train_each(const std::vector<Env>& of_rank, const testing::TempDir& dir,
                       const std::vector<std::string>& flags = {}) {
  std::vector<std::unique_ptr<Process>> ranks;
  for (const Env& more : of_rank) {
    Env env = clean(dir);
    env.insert(env.end(), more.begin(), more.end());
    std::vector<std::string> command = short_training(dir / "run");
    command.insert(command.end(), flags.begin(), flags.end());
    ranks.push_back(std::make_unique<Process>(command, testing::ProcessOptions{.env = env}));
  }
  for (auto& rank : ranks) {
    if (rank->wait(testing::kDeadline) != 0) return rank->err();
  }
  return testing::read_text(dir / "run/last.safetensors") == expected() ? "" : "other bits";
}

std::vector<Env> plain_ranks(const Env& more) {
  std::vector<Env> ranks;
  for (int r = 0; r < kRanks; ++r) {
    Env env = more;
    env.push_back({"RANK", std::to_string(r)});
    env.push_back({"WORLD_SIZE", std::to_string(kRanks)});
    ranks.push_back(env);
  }
  return ranks;
}

TEST_CASE("launchers: lockstep launch") {
  const testing::TempDir dir;
  CHECK(train_by({testing::program_path("tools/lockstep"), "launch", "--nproc", "3", "--log-dir",
                  dir / "logs", "--"},
                 dir) == "");
}

TEST_CASE("launchers: plain variables, and the user's secret made by whichever rank comes first") {
  const testing::TempDir dir;
  CHECK(train_each(plain_ranks({{"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", std::to_string(free_port())}}),
                   dir) == "");
  CHECK(std::filesystem::exists(dir / "home/.config/lockstep/token"));
}

TEST_CASE("launchers: tcp:// and file:// with no more than RANK and WORLD_SIZE") {
  {
    const testing::TempDir dir;
    CHECK(train_each(plain_ranks({}), dir,
                     {"--init-method", "tcp://127.0.0.1:" + std::to_string(free_port())}) == "");
  }
  const testing::TempDir dir;
  // No home either: the secret is in the file.
  CHECK(
      train_each(plain_ranks({{"HOME", ""}, {"LOCKSTEP_INIT_METHOD", "file://" + (dir / "meet")}}),
                 dir, {"--interface", "lo"}) == "");
  CHECK_FALSE(std::filesystem::exists(dir / "meet"));
}

TEST_CASE("launchers: torchrun's variables, with its own store on MASTER_PORT") {
  const testing::TempDir dir;
  const TcpStore agent({.serve = true, .token = "torchrun's own"});
  CHECK(train_each(plain_ranks({{"LOCAL_WORLD_SIZE", "3"},
                                {"MASTER_ADDR", "127.0.0.1"},
                                {"MASTER_PORT", std::to_string(agent.port())},
                                {"TORCHELASTIC_RUN_ID", "none"},
                                {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
                   dir) == "");
}

TEST_CASE("launchers: Open MPI") {
  if (!is_in_path(kOpenMpi)) {
    std::puts("SKIPPED: Open MPI is not installed (tools/setup.sh --dev)");
    return;
  }
  const testing::TempDir dir;
  CHECK(train_by({kOpenMpi, "--allow-run-as-root", "--oversubscribe", "-n", "3"}, dir) == "");
}

TEST_CASE("launchers: MPICH") {
  if (!is_in_path(kMpich)) {
    std::puts("SKIPPED: MPICH is not installed (tools/setup.sh --dev)");
    return;
  }
  const testing::TempDir dir;
  CHECK(train_by({kMpich, "-n", "3"}, dir) == "");
  // By a shell of each rank's own: its parents are others.
  const testing::TempDir other;
  CHECK(train_by({kMpich, "-n", "3", "sh", "-c", "\"$@\"; exit $?", "-"}, other) == "");
}

TEST_CASE("launchers: srun") {
  const testing::TempDir dir;
  const std::string script = testing::program_path("tests/examples/one_node_slurm.sh");
  const std::string wrong =
      train_by({script, dir / "slurm", std::to_string(free_port()), std::to_string(free_port()),
                "srun", "--overcommit", "-n", "3"},
               dir);
  if (contains(wrong, "slurmd needs root") || contains(wrong, "is not installed") ||
      contains(wrong, "Slurm does not start")) {
    std::printf("SKIPPED: %s", wrong.c_str());
    return;
  }
  CHECK(wrong == "");
  // Nothing of it is left.
  const auto left = [&] {
    std::string commands;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string command = testing::read_text((entry.path() / "cmdline").string());
      if (contains(command, dir / "slurm")) commands += command.c_str();
    }
    return commands;
  };
  CHECK_MESSAGE(testing::eventually([&] { return left() == ""; }), left());
}

TEST_CASE("launchers: srun tells by 138 that its ranks have saved, and the next one goes on") {
  const testing::TempDir dir;
  const char* twice =
      "LOCKSTEP_FAILPOINT=trainer.forward@3:usr1 srun --overcommit -n 3 \"$@\"; code=$?; "
      "[ $code = 138 ] || { echo \"exit code $code\"; exit 1; }; "
      "exec srun --overcommit -n 3 \"$@\" --resume auto";
  const std::string wrong =
      train_by({testing::program_path("tests/examples/one_node_slurm.sh"), dir / "slurm",
                std::to_string(free_port()), std::to_string(free_port()), "sh", "-c", twice, "-"},
               dir);
  if (contains(wrong, "slurmd needs root") || contains(wrong, "is not installed") ||
      contains(wrong, "Slurm does not start")) {
    std::printf("SKIPPED: %s", wrong.c_str());
    return;
  }
  CHECK(wrong == "");
}

TEST_CASE("launchers: one process of mpirun starts its own") {
  if (!is_in_path(kOpenMpi)) {
    std::puts("SKIPPED: Open MPI is not installed (tools/setup.sh --dev)");
    return;
  }
  const testing::TempDir dir;
  std::vector<std::string> command = {kOpenMpi, "--allow-run-as-root", "-n", "1"};
  for (const std::string& part : short_training(dir / "run")) command.push_back(part);
  command.insert(command.end(), {"--nproc", "3"});
  Process run(command, {.env = clean(dir)});
  CHECK(run.wait(testing::kDeadline) == 0);
  CHECK(testing::read_text(dir / "run/last.safetensors") == expected());
}

}  // namespace
}  // namespace lockstep

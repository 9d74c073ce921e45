#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/support/eventually.h"
#include "lockstep/tests/support/process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <ios>
#include <memory>
#include <set>
#include <sstream>
#include <tuple>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::Process;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// `lockstep launch` with these options of rank_program with these arguments.
std::vector<std::string> launch(std::vector<std::string> options,
                                const std::vector<std::string>& arguments) {
  std::vector<std::string> command{testing::program_path("tools/lockstep"), "launch"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", testing::program_path("tests/distributed/rank_program")});
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

bool alive(pid_t pid) {
  // A zombie is dead; its new parent has only not looked yet.
  try {
    const std::string stat = testing::read_text("/proc/" + std::to_string(pid) + "/stat");
    return !stat.empty() && !contains(stat, ") Z");
  } catch (const std::ios_base::failure&) {
    return false;  // it went while its file was read
  }
}

/// The process ids that "stubborn" ranks have written, once all have.
std::vector<pid_t> pids_in(const testing::TempDir& dir, int n) {
  std::vector<pid_t> pids;
  for (int r = 0; r < n; ++r) {
    const std::string path = dir / std::to_string(r);
    REQUIRE(testing::eventually([&] { return std::filesystem::exists(path); }));
    pids.push_back(std::stoi(testing::read_text(path)));
  }
  return pids;
}

TEST_CASE("launch: ranks, prefixes and logs") {
  const testing::TempDir dir;
  const std::string logs = dir / "made/by/launch";
  Process job(launch({"--nproc", "3", "--log-dir", logs}, {"collectives"}));
  CHECK(job.wait() == 0);
  CHECK(job.err() == "");
  CHECK(job.out() == "[rank 0] rank 0 of 3 gloo is done\n");
  CHECK(testing::read_text(logs + "/rank1.log") == "rank 1 of 3 gloo is done\n");
  CHECK(testing::read_text(logs + "/rank2.log") == "rank 2 of 3 gloo is done\n");
  // The log of a job that is resumed, or still runs, is not lost to the next one.
  Process next(launch({"--nproc", "2", "--log-dir", logs}, {"collectives"}));
  CHECK(next.wait() == 0);
  CHECK(testing::read_text(logs + "/rank1.log") ==
        "rank 1 of 3 gloo is done\nrank 1 of 2 gloo is done\n");
}

TEST_CASE("launch: the temporary folder for logs stays only if something is in it") {
  const testing::TempDir dir;
  const auto run = [&](const std::vector<std::string>& options, const std::string& shell) {
    std::vector<std::string> command = {testing::program_path("tools/lockstep"), "launch",
                                        "--nproc", "2"};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"--", "sh", "-c", shell});
    Process job(command, {.env = {{"TMPDIR", dir.path().string()}}});
    CHECK(job.wait() == 0);
    return std::distance(std::filesystem::directory_iterator(dir.path()), {});
  };
  CHECK(run({}, "true") == 0);
  CHECK(run({"--log-dir", dir / "asked"}, "true") == 1);  // what was asked for stays
  CHECK(run({}, "echo $RANK") == 2);
}

TEST_CASE("launch: a parent that ignores SIGCHLD does not keep it from seeing how ranks end") {
  std::vector<std::string> command = launch({"--nproc", "2"}, {"exit", "3"});
  command.insert(command.begin(), {"/usr/bin/env", "--ignore-signal=CHLD"});
  CHECK(Process(command).wait() == 3);
}

TEST_CASE("launch: the environment") {
  Process job(launch({"-n", "2", "--log-dir", "-"}, {"environment"}),
              {.env = {{"OMP_NUM_THREADS", ""}}});
  CHECK(job.wait() == 0);
  for (const char* line :
       {"[rank 0] RANK=0\n", "[rank 1] RANK=1\n", "[rank 1] LOCAL_RANK=1\n",
        "[rank 1] WORLD_SIZE=2\n", "[rank 0] LOCAL_WORLD_SIZE=2\n", "[rank 0] OMP_NUM_THREADS="}) {
    CHECK(contains(job.out(), line));
  }
  CHECK_FALSE(contains(job.out(), "OMP_NUM_THREADS=\n"));
  Process set(launch({"-n", "1"}, {"environment"}), {.env = {{"OMP_NUM_THREADS", "7"}}});
  CHECK(set.wait() == 0);
  CHECK(contains(set.out(), "OMP_NUM_THREADS=7\n"));
  // Set but empty; and below a torchrun, whose port is not the one that this launcher names.
  std::vector<std::string> below = {"/usr/bin/env",
                                    "OMP_NUM_THREADS=", "TORCHELASTIC_USE_AGENT_STORE=True"};
  for (const std::string& word :
       {testing::program_path("tools/lockstep"), std::string("launch"), std::string("--nproc"),
        std::string("1"), std::string("--"), std::string("sh"), std::string("-c"),
        std::string("echo [$OMP_NUM_THREADS] $TORCHELASTIC_USE_AGENT_STORE")}) {
    below.push_back(word);
  }
  Process empty(below);
  CHECK(empty.wait() == 0);
  CHECK_FALSE(contains(empty.out(), "[]"));
  CHECK(contains(empty.out(), "] False\n"));
  Process self({testing::program_path("tests/distributed/rank_program"), "self"});
  CHECK(self.wait() == 0);
  CHECK(contains(self.out(), "[rank 1] WORLD_SIZE=2\n"));
}

TEST_CASE("launch: a rank that fails ends all within a second and is named") {
  auto start = steady_clock::now();
  Process failed(launch({"--nproc", "3"}, {"exit", "3"}));
  CHECK(failed.wait() == 3);
  CHECK(steady_clock::now() - start < milliseconds(3000));
  CHECK(contains(failed.err(),
                 "lockstep: rank 1 exited with code 3; its last line: the last words ("));
  CHECK(contains(failed.err(), "/rank1.log)\n"));

  start = steady_clock::now();
  Process killed(launch({"--nproc", "2", "--log-dir", "-"}, {"kill"}));
  CHECK(killed.wait() == 137);
  CHECK(steady_clock::now() - start < milliseconds(3000));
  CHECK(contains(killed.err(), "lockstep: rank 1 was killed by signal 9 (Killed)"));
}

TEST_CASE("launch: who died first is named, not who noticed it") {
  Process job(launch({"--nproc", "3", "--log-dir", "-"}, {"reduce-until", "kill"}));
  CHECK(job.wait() == 137);
  CHECK(contains(job.err(), "lockstep: rank 2 was killed by signal 9"));
  Process victim(launch({"--nproc", "2", "--log-dir", "-"}, {"victim"}));
  CHECK(victim.wait() == 5);
  CHECK(contains(victim.err(), "lockstep: rank 1 exited with code 5; its last line: the cause"));
}

TEST_CASE("launch: Ctrl-C ends ranks that ignore it, and SIGTERM once the grace is over") {
  for (int signal : {SIGINT, SIGTERM}) {
    const testing::TempDir dir;
    const std::vector<std::string> grace =
        signal == SIGINT ? std::vector<std::string>{} : std::vector<std::string>{"--grace", "0.7"};
    std::vector<std::string> options{"--nproc", "2"};
    options.insert(options.end(), grace.begin(), grace.end());
    Process job(launch(options, {"stubborn", dir.path().string()}));
    const auto pids = pids_in(dir, 2);
    const auto start = steady_clock::now();
    ::kill(job.pid(), signal);
    CHECK(job.wait() == 128 + signal);
    CHECK(steady_clock::now() - start < milliseconds(1500));
    for (pid_t pid : pids) CHECK_FALSE(alive(pid));
    CHECK(contains(job.err(), "lockstep: ended by "));
    CHECK(contains(job.err(), "not all ranks had ended after 700 ms") == (signal == SIGTERM));
  }
}

TEST_CASE("launch: ranks that are asked to stop may save, whoever asks") {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    for (const bool one_rank : {false, true}) {
      CAPTURE(signal);
      CAPTURE(one_rank);
      const testing::TempDir dir;
      Process job(launch({"--nproc", "3"}, {"saving", dir.path().string()}));
      const auto pids = pids_in(dir, 3);
      // Sent to one rank alone, which ends at once, while the others hear of it some other way.
      if (one_rank) {
        for (const pid_t pid : {pids[1], pids[0], pids[2]}) ::kill(pid, signal);
      } else {
        ::kill(job.pid(), signal);
        ::kill(job.pid(), signal);  // as timeout(1) does it
      }
      CHECK(job.wait() == 128 + signal);
      for (const char* rank : {"0", "1", "2"}) {
        CHECK(testing::read_text((dir / "saved") + rank) == "all of it");
      }
    }
  }
}

TEST_CASE("launch: a second request, a while after the first, ends ranks at once") {
  const testing::TempDir dir;
  Process job(launch({"--nproc", "2"}, {"stubborn", dir.path().string()}));
  const auto pids = pids_in(dir, 2);
  ::kill(job.pid(), SIGTERM);
  CHECK_FALSE(job.ends_within(milliseconds(1500)));
  ::kill(job.pid(), SIGTERM);
  CHECK(job.wait() == 128 + SIGTERM);
  for (pid_t pid : pids) CHECK_FALSE(alive(pid));
}

TEST_CASE("launch: who is asked to save and fails at it is named; who was done is done") {
  const auto run = [](const std::string& shell) {
    const testing::TempDir dir;
    Process job({testing::program_path("tools/lockstep"), "launch", "--nproc", "2", "--log-dir",
                 "-", "--", "sh", "-c",
                 "trap '" + shell + "' TERM; touch " + (dir / "") + "$RANK.up; " +
                     "while :; do sleep 0.02; done"});
    for (const char* rank : {"0.up", "1.up"}) {
      REQUIRE(testing::eventually([&] { return std::filesystem::exists(dir / rank); }));
    }
    ::kill(job.pid(), SIGTERM);
    const int code = job.wait();
    return std::make_pair(code, job.err());
  };
  const auto failed = run("test $RANK = 0 && exit 143; echo the disk is full >&2; exit 1");
  CHECK(failed.first == 1);
  CHECK(contains(failed.second,
                 "lockstep: rank 1 exited with code 1; its last line: the disk is full"));
  const auto done = run("exit 0");
  CHECK(done.first == 0);
  CHECK_FALSE(contains(done.second, "lockstep: "));
}

TEST_CASE("launch: no signal is lost to another thread of the program") {
  const testing::TempDir dir;
  Process job(
      {testing::program_path("tests/distributed/rank_program"), "threads", dir.path().string()});
  const auto pids = pids_in(dir, 2);
  ::kill(pids[1], SIGKILL);
  CHECK(job.wait() == 137);
  CHECK_FALSE(alive(pids[0]));
  CHECK(contains(job.err(), "lockstep: rank 1 was killed by signal 9"));

  const testing::TempDir other;
  Process asked(
      {testing::program_path("tests/distributed/rank_program"), "threads", other.path().string()});
  pids_in(other, 2);
  ::kill(asked.pid(), SIGTERM);
  CHECK(asked.wait() == 128 + SIGTERM);
  CHECK(contains(asked.err(), "lockstep: ended by Terminated"));
}

TEST_CASE("launch: goes on when the terminal goes, where nohup asks for it") {
  const testing::TempDir dir;
  std::vector<std::string> command = launch({"--nproc", "2"}, {"stubborn", dir.path().string()});
  command.insert(command.begin(), {"/usr/bin/env", "--ignore-signal=HUP"});
  Process job(command);
  const auto pids = pids_in(dir, 2);
  ::kill(job.pid(), SIGHUP);
  ::kill(pids[1], SIGKILL);
  CHECK(job.wait() == 137);  // and not 128 + SIGHUP
}

TEST_CASE("launch: a launcher that is killed leaves no orphans") {
  const testing::TempDir dir;
  Process job(launch({"--nproc", "2"}, {"stubborn", dir.path().string()}));
  const auto pids = pids_in(dir, 2);
  ::kill(job.pid(), SIGKILL);
  CHECK(job.wait() == 137);
  for (pid_t pid : pids)
    CHECK(testing::eventually([pid] { return !alive(pid); }, milliseconds(1000)));
}

TEST_CASE("launch: two jobs at once") {
  std::vector<std::unique_ptr<Process>> jobs;
  for (int i = 0; i < 2; ++i) {
    jobs.push_back(std::make_unique<Process>(launch({"--nproc", "2"}, {"collectives"})));
  }
  for (auto& job : jobs) {
    CHECK(job->wait(milliseconds(60'000)) == 0);
    CHECK(contains(job->out(), "rank 0 of 2 gloo is done"));
  }
}

/// A launch of a shell's program with these options; $DIR is a folder of its own.
std::pair<int, std::string> launch_shell(const std::vector<std::string>& options,
                                         const std::string& shell, const testing::TempDir& dir) {
  std::vector<std::string> command{testing::program_path("tools/lockstep"), "launch", "--log-dir",
                                   "-"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", "sh", "-c", shell, "program", "--resume", "auto"});
  Process job(command, {.env = {{"DIR", dir.path().string()}}});
  const int code = job.wait(milliseconds(60'000));
  return {code, job.err()};
}

TEST_CASE("launch: after a rank's death all are started again, with another port and secret") {
  const testing::TempDir dir;
  // Each start of rank 0 leaves a line; rank 2 dies in the first two.
  const auto [code, err] = launch_shell(
      {"--nproc", "3", "--max-restarts", "5"},
      "if [ $RANK = 0 ]; then echo $WORLD_SIZE $MASTER_PORT $LOCKSTEP_TOKEN >> $DIR/starts; fi; "
      "if [ $RANK = 2 ]; then echo >> $DIR/two; "
      "if [ $(wc -l < $DIR/two) -le 2 ]; then sleep 0.3; kill -9 $$; fi; fi; sleep 1",
      dir);
  CHECK(code == 0);
  CHECK(contains(err, "lockstep: rank 2 was killed by signal 9 (Killed)"));
  CHECK(contains(err, "lockstep: restart 1 of 5, with 3 ranks\n"));
  CHECK(contains(err, "lockstep: restart 2 of 5, with 3 ranks\n"));
  CHECK_FALSE(contains(err, "restart 3"));
  CHECK_FALSE(contains(err, "no --resume"));
  std::istringstream starts(testing::read_text(dir / "starts"));
  std::set<std::string> tokens;
  int lines = 0;
  for (std::string world, port, token; starts >> world >> port >> token; ++lines) {
    CHECK(world == "3");
    tokens.insert(token);
  }
  CHECK(lines == 3);
  CHECK(tokens.size() == 3);
}

TEST_CASE("launch: restarts end, may have fewer ranks, and are not for what would come again") {
  const testing::TempDir dir;
  const std::string fails = "echo $WORLD_SIZE >> $DIR/starts; sleep 0.2; exit ";
  auto [code, err] = launch_shell({"--nproc", "3", "--max-restarts", "3", "--restart-with-fewer"},
                                  fails + "7", dir);
  CHECK(code == 7);
  CHECK(contains(err, "restart 1 of 3, with 2 ranks\n"));
  CHECK(contains(err, "restart 2 of 3, with 1 rank\n"));
  CHECK(contains(err, "restart 3 of 3, with 1 rank\n"));
  CHECK_FALSE(contains(err, "restart 4"));
  CHECK(testing::read_text(dir / "starts") == "3\n3\n3\n2\n2\n1\n1\n");
  for (const char* not_again : {"2", "143", "138"}) {  // wrong usage; stopped as asked
    std::tie(code, err) =
        launch_shell({"--nproc", "1", "--max-restarts", "3"}, fails + not_again, dir);
    CHECK(std::to_string(code) == not_again);
    CHECK_FALSE(contains(err, "restart"));
  }
  Process asked({testing::program_path("tools/lockstep"), "launch", "--nproc", "2",
                 "--max-restarts", "3", "--log-dir", "-", "--",
                 testing::program_path("tests/distributed/rank_program"), "saving",
                 dir.path().string()});
  pids_in(dir, 2);
  ::kill(asked.pid(), SIGTERM);
  CHECK(asked.wait() == 128 + SIGTERM);
  CHECK_FALSE(contains(asked.err(), "restart 1"));
  CHECK(contains(asked.err(), "the program was given no --resume auto"));
}

TEST_CASE("launch: wrong use") {
  const std::string lockstep = testing::program_path("tools/lockstep");
  const auto fails = [](std::vector<std::string> command, int code, const std::string& words) {
    Process job(std::move(command));
    CHECK(job.wait() == code);
    CHECK(contains(job.err(), words));
    CHECK(job.out() == "");
  };
  fails({lockstep}, 2, "lockstep: ");
  fails({lockstep, "lunch"}, 2, "lockstep: ");
  fails({lockstep, "launch", "--nproc", "0", "--", "true"}, 2, "--nproc");
  fails({lockstep, "launch", "--nproc", "2"}, 2, "program");
  fails({lockstep, "launch", "--nproc", "2", "--", "/no/such/program"}, 1,
        "cannot start '/no/such/program': No such file or directory");
  fails({lockstep, "launch", "--nproc", "2", "--log-dir", "/proc/nothing", "--", "true"}, 1,
        "cannot make /proc/nothing");
  fails({lockstep, "launch", "--nproc", "1", "--nnodes", "2", "--", "true"}, 2,
        "2 machines need --master-addr");
  fails({lockstep, "launch", "--nproc", "1", "--nnodes", "2", "--node-rank", "2", "--master-addr",
         "localhost", "--master-port", "29500", "--", "true"},
        2, "wanted a node rank from 0 to 1, got 2");
  fails({lockstep, "launch", "--nproc", "1", "--nnodes", "2", "--master-addr", "localhost",
         "--master-port", "29500", "--max-restarts", "1", "--", "true"},
        2, "restarts are for one machine");
  TcpStore other({.serve = true, .token = "another job"});
  fails({lockstep, "launch", "--nproc", "2", "--master-port", std::to_string(other.port()), "--",
         "true"},
        1, "is in use (another job?)");
}

}  // namespace
}  // namespace lockstep

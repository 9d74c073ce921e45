#include "lockstep/distributed/comm/launcher.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/child_process.h"
#include "lockstep/distributed/comm/environment.h"
#include "lockstep/distributed/comm/interface.h"
#include "lockstep/distributed/comm/job_token.h"
#include "lockstep/distributed/comm/launch_output.h"
#include "lockstep/distributed/comm/launch_signals.h"
#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/distributed/comm/rank_env.h"

#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <iostream>
#include <optional>

namespace lockstep {
namespace {

using comm::Socket;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Once a rank has failed, the others have so long to notice it, say what they saw and end: one that
// ends because it has lost another is not to blame.
constexpr milliseconds kLastWords{1000};
// Some who send a signal send it twice at once: timeout(1), batch systems.
constexpr milliseconds kSameRequest{1000};

constexpr int kUsage = 2;  // the exit code of a program that was called wrongly

/// Whether a program may save before it ends by it.
bool asks_to_save(int signal) { return signal == SIGTERM || signal == SIGUSR1; }

struct Rank {
  int index = 0;   // among this machine's
  pid_t pid = -1;  // -1 once it has been waited for
  comm::RankOutput output;
};

struct Ending {
  int rank = 0;
  int code = 0;    // its exit code, or
  int signal = 0;  // the signal that killed it

  bool failed() const { return code != 0 || signal != 0; }
  /// It says that it has stopped as asked.
  bool stopped() const { return code > 128 && asks_to_save(code - 128); }
};

class Job {
 public:
  explicit Job(const LaunchOptions& options) : options_(options) {}
  /// Whatever has happened, nothing of the job is left behind.
  ~Job() {
    signal_all(SIGKILL);
    for (Rank& rank : ranks_) {
      if (rank.pid > 0) ::waitpid(rank.pid, nullptr, 0);
    }
  }

  /// Whether it has ended by the fault of a rank that may do better next time.
  bool may_restart() const {
    return asked_ == 0 &&
           std::any_of(
               failures_.begin(), failures_.end(),
               [](const Ending& e) { return e.failed() && !e.stopped() && e.code != kUsage; }) &&
           std::none_of(failures_.begin(), failures_.end(),
                        [](const Ending& e) { return e.code == kUsage; });
  }

  int run() {
    start_all();
    while (std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.pid > 0; })) {
      wait_for_something();
      for (Rank& rank : ranks_) rank.output.relay();
      if (const int asked = signals_.take(); asked != 0) on_signal(asked);
      reap();
      decide();
    }
    for (Rank& rank : ranks_) rank.output.finish();
    return report();
  }

 private:
  void start_all() {
    const bool one_host = options_.nnodes == 1;
    host_ = options_.master_addr.empty() ? "127.0.0.1" : options_.master_addr;
    master_port_ = options_.master_port;
    if (options_.node_rank == 0) {
      // Held to the end: nobody else is given this port, and rank 0 may listen on it all the same.
      port_ = comm::reserve_port(one_host ? host_ : comm::address_for_all(host_, ""), master_port_);
      master_port_ = port_of(port_);
    }
    const std::string token =
        one_host ? make_job_token()
                 : job_token(str("launch/", master_port_, "/", options_.nnodes * options_.nproc));
    output_.emplace(options_.log_dir, options_.nproc, rank_of(0));
    ranks_.resize(static_cast<size_t>(options_.nproc));
    for (int r = 0; r < options_.nproc; ++r) start(r, token);
  }

  /// Among all machines'.
  int rank_of(int index) const { return options_.node_rank * options_.nproc + index; }

  void start(int r, const std::string& token) {
    Rank& rank = ranks_[static_cast<size_t>(r)];
    rank.index = r;
    comm::RankWriters writers;
    rank.output = output_->open(r, writers);
    comm::ChildOptions child;
    child.command = options_.command;
    child.signal_mask = signals_.mask_before();
    child.out_fd = writers.out_fd;
    child.err_fd = writers.err_fd;
    child.environment = environment_of(r, token);
    rank.pid = comm::start_child(child);
  }

  std::vector<std::pair<std::string, std::string>> environment_of(int r, const std::string& token) {
    const std::string n = std::to_string(options_.nproc);
    std::vector<std::pair<std::string, std::string>> result = {
        {"RANK", std::to_string(rank_of(r))},
        {"WORLD_SIZE", std::to_string(options_.nnodes * options_.nproc)},
        {"LOCAL_RANK", std::to_string(r)},
        {"LOCAL_WORLD_SIZE", n},
        {"MASTER_ADDR", host_},
        {"MASTER_PORT", std::to_string(master_port_)},
        {"LOCKSTEP_TOKEN", token},
    };
    const Environment env = process_environment();
    // The agent whose store it speaks of is that of a torchrun above this launcher.
    const char* agent = "TORCHELASTIC_USE_AGENT_STORE";
    if (env(agent)) result.emplace_back(agent, "False");
    if (!env("OMP_NUM_THREADS")) {
      cpu_set_t cores;
      CPU_ZERO(&cores);
      const int count = ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
      result.emplace_back("OMP_NUM_THREADS", std::to_string(std::max(1, count / options_.nproc)));
    }
    return result;
  }

  void wait_for_something() {
    std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}};
    for (const Rank& rank : ranks_) rank.output.add_to(fds);
    int timeout = -1;
    if (deadline_) {
      const auto left = std::chrono::ceil<milliseconds>(*deadline_ - steady_clock::now()).count();
      timeout = static_cast<int>(std::max<int64_t>(left, 0));
    }
    ::poll(fds.data(), fds.size(), timeout);
  }

  void on_signal(int asked) {
    const auto now = steady_clock::now();
    if (asked == asked_ && asks_to_save(asked) && now - asked_at_ < kSameRequest) return;
    if (asked_ != 0 || ending_) return kill_now();  // asked twice
    asked_ = asked;
    asked_at_ = now;
    end_all(asked, asks_to_save(asked) ? options_.stop_grace : options_.grace);
  }

  void reap() {
    for (Rank& rank : ranks_) {
      if (rank.pid <= 0) continue;
      siginfo_t info{};
      if (::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid == 0) {
        continue;
      }
      // What it has started goes with it; its number cannot be another's before it has been waited
      // for.
      ::kill(-rank.pid, SIGKILL);
      ::waitpid(rank.pid, nullptr, 0);
      rank.pid = -1;
      rank.output.finish();
      const bool exited = info.si_code == CLD_EXITED;
      const Ending end{rank.index, exited ? info.si_status : 0, exited ? 0 : info.si_status};
      if (!end.failed()) continue;
      all_well_ = false;
      // Who is asked to save may fail at it; who has no time left, or ends by the signal, does not.
      const bool as_asked = end.stopped() || end.signal == asked_ ||
                            (killed_ && end.signal == SIGKILL) || is_victim(end);
      if (!ending_ || (asks_to_save(asked_) && !as_asked)) failures_.push_back(end);
    }
  }

  void decide() {
    const auto now = steady_clock::now();
    if (!ending_ && !failures_.empty()) {
      const bool stopping = std::all_of(failures_.begin(), failures_.end(),
                                        [](const Ending& e) { return e.stopped(); });
      if (!last_words_by_ || (stopping_ && !stopping)) {
        stopping_ = stopping;
        last_words_by_ = deadline_ = now + (stopping ? options_.stop_grace : kLastWords);
      }
      if (now >= *last_words_by_) end_all(SIGTERM, options_.grace);
    }
    if (ending_ && now >= *deadline_) {
      late_ = late_ || (asks_to_save(asked_) && !killed_);
      kill_now();
    }
  }

  bool is_victim(const Ending& e) const {
    return e.signal == 0 && last_line(e.rank).find(comm::kPeerLost) != std::string::npos;
  }

  const std::string& last_line(int rank) const {
    return ranks_[static_cast<size_t>(rank)].output.last_line();
  }

  void end_all(int signal, milliseconds grace) {
    ending_ = true;
    deadline_ = steady_clock::now() + grace;
    signal_all(signal);
  }

  void kill_now() {
    killed_ = true;
    signal_all(SIGKILL);
    deadline_ = steady_clock::now() + milliseconds(100);
  }

  void signal_all(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.pid > 0) ::kill(-rank.pid, signal);
    }
  }

  int report() const {
    if (asks_to_save(asked_) && all_well_) return 0;  // they were done
    if (asked_ != 0 && (!asks_to_save(asked_) || failures_.empty())) {
      std::cerr << "lockstep: ended by " << ::strsignal(asked_);
      if (late_) {
        std::cerr << "; not all ranks had ended after " << options_.stop_grace.count() << " ms";
      }
      std::cerr << std::endl;
      return 128 + asked_;
    }
    if (failures_.empty()) return 0;
    // Killed ranks first, then those that failed by themselves, then those that lost a peer.
    const auto weight = [this](const Ending& e) {
      return e.signal != 0 ? 0 : is_victim(e) ? 2 : 1;
    };
    const Ending end =
        *std::min_element(failures_.begin(), failures_.end(),
                          [&](const Ending& a, const Ending& b) { return weight(a) < weight(b); });
    std::cerr << "lockstep: rank " << rank_of(end.rank);
    if (end.signal != 0) {
      std::cerr << " was killed by signal " << end.signal << " (" << ::strsignal(end.signal) << ")";
    } else {
      std::cerr << " exited with code " << end.code;
    }
    const std::string& line = last_line(end.rank);
    if (!line.empty()) std::cerr << "; its last line: " << line;
    if (ranks_[static_cast<size_t>(end.rank)].output.has_log() && output_->has_log(end.rank)) {
      std::cerr << " (" << output_->log_path(end.rank) << ")";
    }
    std::cerr << std::endl;
    return end.signal != 0 ? 128 + end.signal : end.code;
  }

  const LaunchOptions& options_;
  comm::LaunchSignals signals_;
  std::string host_;
  uint16_t master_port_ = 0;
  Socket port_;
  std::optional<comm::LaunchOutput> output_;  // outlives the ranks, as its folder must
  std::vector<Rank> ranks_;
  std::vector<Ending> failures_;  // before the others were told to end
  int asked_ = 0;                 // by which signal we were
  steady_clock::time_point asked_at_;
  bool ending_ = false;
  bool killed_ = false;
  bool late_ = false;      // ranks that were asked to save took too long
  bool all_well_ = true;   // every rank that has ended has returned 0
  bool stopping_ = false;  // last_words_by_ is about ranks that have stopped as asked
  std::optional<steady_clock::time_point> last_words_by_;
  std::optional<steady_clock::time_point> deadline_;
};

}  // namespace

int launch(const LaunchOptions& options) {
  check(options.nproc >= 1 && options.nproc <= 1024, "launch: wanted 1 to 1024 processes, got ",
        options.nproc);
  check(!options.command.empty(), "launch: no program given");
  check(options.nnodes >= 1 && options.node_rank >= 0 && options.node_rank < options.nnodes,
        "launch: wanted a node rank from 0 to ", options.nnodes - 1, ", got ", options.node_rank);
  check(options.nnodes == 1 || (!options.master_addr.empty() && options.master_port != 0),
        "launch: ", options.nnodes,
        " machines need --master-addr, an address of machine 0, and "
        "--master-port, a free port there, the same on all of them");
  check(options.max_restarts >= 0, "launch: wanted max_restarts >= 0, got ", options.max_restarts);
  check(options.max_restarts == 0 || options.nnodes == 1,
        "launch: restarts are for one machine; on several let the batch system start all again");
  LaunchOptions now = options;
  for (int restart = 1;; ++restart) {
    // With a port and a token of its own each time: no late rank of the job before gets in.
    Job job(now);
    const int code = job.run();
    if (restart > options.max_restarts || !job.may_restart()) return code;
    if (options.restart_with_fewer && now.nproc > 1) --now.nproc;
    std::cerr << "lockstep: restart " << restart << " of " << options.max_restarts << ", with "
              << now.nproc << (now.nproc == 1 ? " rank" : " ranks") << std::endl;
  }
}

int launch_self(LaunchOptions options, const std::vector<std::string>& arguments) {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  if (n <= 0 || n == static_cast<ssize_t>(sizeof path)) {
    throw IoError(str("launch: /proc/self/exe: ", std::strerror(errno)));
  }
  options.command = {std::string(path, static_cast<size_t>(n))};
  options.command.insert(options.command.end(), arguments.begin(), arguments.end());
  return launch(options);
}

bool launched() { return rank_from_env().has_value(); }

}  // namespace lockstep

#include "lockstep/tools/doctor/check_machine.h"

#include "lockstep/base/str.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace lockstep::doctor {
namespace {

using Findings = std::vector<Finding>;

constexpr uint64_t kMiB = uint64_t{1} << 20;

void check_processors(const Machine& m, Findings& found) {
  if (m.quota < m.allowed) {
    const int whole = std::max(1, static_cast<int>(std::floor(m.quota)));
    found.push_back(
        {Level::kWarning,
         str("this process may run on ", m.allowed, " processors, but gets the time of ", m.quota,
             " (cgroup): more threads than that are held up"),
         str("ranks times threads should be ", whole,
             " at most: --threads, or "
             "OMP_NUM_THREADS")});
  }
  if (const auto text = m.env("OMP_NUM_THREADS")) {
    char* end = nullptr;
    const long threads = std::strtol(text->c_str(), &end, 10);
    if (end == text->c_str() || threads < 1) {
      found.push_back({Level::kWarning,
                       str("OMP_NUM_THREADS is '", *text, "', no number of threads"),
                       "unset it, or set a number"});
    } else if (threads > m.allowed) {
      found.push_back({Level::kWarning,
                       str("OMP_NUM_THREADS is ", threads, ", but this process may run on ",
                           m.allowed, " processors: threads take turns"),
                       "unset it: the processors are shared out among the ranks then"});
    }
  }
  for (const char* name : {"OMP_PROC_BIND", "GOMP_CPU_AFFINITY", "OMP_PLACES"}) {
    const auto value = m.env(name);
    if (!value || *value == "false" || *value == "FALSE") continue;
    found.push_back({Level::kWarning,
                     str(name,
                         " is set: each rank by itself binds its threads to the same "
                         "processors as the others"),
                     str("unset it, or let the launcher bind ranks (mpirun, srun --cpu-bind)")});
  }
  if (m.env("OMP_WAIT_POLICY").value_or("") == "active") {
    found.push_back({Level::kNote,
                     "OMP_WAIT_POLICY is active: threads that wait keep processors from the ranks' "
                     "communication",
                     "unset it, unless each rank has processors to spare"});
  }
  const IsaBits wider = m.available & ~m.built_for;
  if (wider != 0) {
    found.push_back(
        {Level::kNote,
         "the processor can more than this program was built for: " + isa_names(wider),
         "bazel build --config=opt --config=native (oneDNN chooses for itself anyway)"});
  }
  if (m.clock_source == "hpet" || m.clock_source == "acpi_pm" || m.clock_source == "jiffies") {
    found.push_back({Level::kWarning,
                     str("the clock is ", m.clock_source,
                         ", which takes a microsecond or more to read: timelines "
                         "cost time"),
                     "boot with a stable tsc (kernel parameter tsc=reliable, where it is)"});
  }
}

void check_memory(const Machine& m, Findings& found) {
  if (m.memory_available < 512 * kMiB) {
    found.push_back({Level::kWarning,
                     str("only ", m.memory_available / kMiB, " MiB of memory are available"),
                     "end other programs, or lower --batch-size and the number of ranks"});
  }
  if (!m.temp.writable) {
    found.push_back({Level::kProblem, m.temp.path + " cannot be written",
                     "set TMPDIR to a folder that can, or give launch a --log-dir"});
  } else if (m.temp.free_bytes < 100 * kMiB) {
    found.push_back({Level::kWarning,
                     str(m.temp.path, " has only ", m.temp.free_bytes / kMiB,
                         " MiB free for the ranks' output"),
                     "make room, or set TMPDIR"});
  }
  if (!m.shared_memory.writable || m.shared_memory.free_bytes < 64 * kMiB) {
    found.push_back({Level::kNote,
                     "/dev/shm is small or missing: mpirun may fail to start "
                     "(Lockstep itself does not use it)",
                     "mount it larger (docker run --shm-size=1g), or use lockstep launch"});
  }
  if (m.open_files < 1024) {
    found.push_back({m.open_files < 64 ? Level::kProblem : Level::kWarning,
                     str("a process may have only ", m.open_files,
                         " open files; a rank needs one for each other rank, and some 30"),
                     "ulimit -n 4096"});
  }
}

void check_gpu(const Machine& m, Findings& found) {
  if (!m.gpus.empty() && !m.built_with_cuda) {
    found.push_back({Level::kNote, "there is a GPU, but this program was built without CUDA",
                     "bazel build --config=opt --config=cuda"});
  } else if (m.built_with_cuda && !m.cuda.empty()) {
    found.push_back({Level::kWarning, m.cuda, "install NVIDIA's driver, or train on the CPU"});
  }
  if (m.built_with_cuda && m.cuda.empty() && m.locked_memory < 64 * kMiB) {
    found.push_back({Level::kNote, "little memory may be locked, as some networks of GPUs need",
                     "ulimit -l unlimited"});
  }
}

void check_network(const Machine& m, Findings& found) {
  const bool any = std::any_of(m.interfaces.begin(), m.interfaces.end(),
                               [](const comm::Interface& i) { return i.loopback; });
  if (!any) {
    found.push_back({Level::kProblem,
                     "the loopback interface is down: ranks of one machine cannot "
                     "meet at 127.0.0.1",
                     "ip link set lo up"});
  }
  const bool outside = std::any_of(m.interfaces.begin(), m.interfaces.end(),
                                   [](const comm::Interface& i) { return !i.loopback; });
  if (!outside) {
    found.push_back({Level::kNote, "there is no network but loopback: jobs stay on this machine",
                     "bring an interface up for jobs over several machines"});
  }
  const std::string there = outside ? m.outward : "ITS-ADDRESS";
  if (m.host_addresses.empty()) {
    found.push_back({Level::kWarning,
                     str("this machine's own name, ", m.host_name,
                         ", stands for no address: "
                         "MASTER_ADDR=$(hostname) and mpirun will fail"),
                     str("add '", there, " ", m.host_name, "' to /etc/hosts")});
  } else if (comm::is_loopback(m.host_addresses[0]) && outside) {
    found.push_back(
        {Level::kWarning,
         str("this machine's own name, ", m.host_name, ", leads to ", m.host_addresses[0],
             ", where no other machine gets to; as rank 0 of a job "
             "on several it listens on ",
             there, " instead"),
         str("map ", m.host_name, " to ", there,
             " in /etc/hosts, or give MASTER_ADDR as "
             "an address")});
  }
  if (m.system_ports.first < 29000 && m.system_ports.second >= 20000) {
    found.push_back(
        {Level::kNote,
         str("the system hands out ports ", m.system_ports.first, " to ", m.system_ports.second,
             ", also some of 20000 to 28999, which jobs of mpirun and srun meet at"),
         "sysctl net.ipv4.ip_local_port_range='32768 60999'"});
  }
}

void check_job(const Machine& m, Findings& found) {
  if (!m.rank_error.empty()) {
    found.push_back(
        {Level::kProblem, "the environment contradicts itself: " + m.rank_error,
         "unset RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT if this is no "
         "rank"});
  } else if (m.env("RANK")) {
    found.push_back({Level::kNote,
                     str("RANK is set: a program started here takes itself for ", m.rank),
                     "unset RANK WORLD_SIZE, if no launcher has started this shell"});
  } else if (m.env("MASTER_ADDR") || m.env("MASTER_PORT")) {
    found.push_back({Level::kNote,
                     "MASTER_ADDR or MASTER_PORT is set: every job of mpirun and srun started here "
                     "meets there, two at once at the same port",
                     "unset them if that is not meant"});
  }
  if (m.env("SLURM_JOB_ID") && !m.env("SLURM_STEP_ID") && m.rank_error.empty()) {
    found.push_back(
        {Level::kNote,
         "this is a Slurm allocation, but no step of it: a program started here is alone",
         "start ranks by srun"});
  }
  if (!m.token_error.empty()) {
    found.push_back(
        {Level::kWarning,
         str("ranks that lockstep launch has not started have no secret to share: ", m.token_error),
         "set LOCKSTEP_TOKEN for them"});
  } else if (const auto token = m.env("LOCKSTEP_TOKEN"); token && token->size() < 16) {
    found.push_back({Level::kWarning,
                     str("LOCKSTEP_TOKEN has ", token->size(), " characters: it can be guessed"),
                     "LOCKSTEP_TOKEN=$(openssl rand -hex 16), or leave it unset"});
  }
}

}  // namespace

std::vector<Finding> check_machine(const Machine& machine) {
  Findings found;
  check_job(machine, found);
  check_network(machine, found);
  check_processors(machine, found);
  check_memory(machine, found);
  check_gpu(machine, found);
  std::stable_sort(found.begin(), found.end(),
                   [](const Finding& a, const Finding& b) { return a.level < b.level; });
  return found;
}

}  // namespace lockstep::doctor

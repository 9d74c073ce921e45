// Each thing that lockstep doctor finds, provoked on a machine that is made up.
#include "lockstep/tools/doctor/check_machine.h"
#include "lockstep/tests/distributed/environment_of.h"

#include <doctest/doctest.h>

#include <functional>

namespace lockstep::doctor {
namespace {

using testing::environment_of;

constexpr uint64_t kGiB = uint64_t{1} << 30;

/// Nothing is wrong with it.
Machine good() {
  Machine m;
  m.built_for = m.available = 0b1111111;
  m.processors = m.allowed = 8;
  m.memory = m.memory_available = 16 * kGiB;
  m.clock_source = "tsc";
  m.cuda = "device cuda: this program was built without CUDA";
  m.host_name = "host0";
  m.host_addresses = {"10.0.0.1"};
  m.interfaces = {{"lo", "127.0.0.1", true}, {"eth0", "10.0.0.1", false}};
  m.outward = "10.0.0.1";
  m.temp = {.path = "/tmp", .free_bytes = kGiB};
  m.shared_memory = {.path = "/dev/shm", .free_bytes = kGiB};
  m.rank = "no launcher";
  return m;
}

std::string all(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings) text += f.what + " -> " + f.remedy + "\n";
  return text;
}

struct Case {
  Level level;
  const char* what;    // a part of it
  const char* remedy;  // a part of it
  std::function<void(Machine&)> change;
};

void set(Machine& m, const char* name, const char* value) {
  m.env = environment_of({{name, value}});
}

const Case kCases[] = {
    {Level::kWarning, "gets the time of 2.5 (cgroup)", "ranks times threads should be 2 at most",
     [](Machine& m) { m.quota = 2.5; }},
    {Level::kWarning, "OMP_NUM_THREADS is 'many'", "unset it",
     [](Machine& m) { set(m, "OMP_NUM_THREADS", "many"); }},
    {Level::kWarning, "OMP_NUM_THREADS is 9, but this process may run on 8", "unset it",
     [](Machine& m) { set(m, "OMP_NUM_THREADS", "9"); }},
    {Level::kWarning, "OMP_PROC_BIND is set", "unset it",
     [](Machine& m) { set(m, "OMP_PROC_BIND", "true"); }},
    {Level::kWarning, "GOMP_CPU_AFFINITY is set", "unset it",
     [](Machine& m) { set(m, "GOMP_CPU_AFFINITY", "0-3"); }},
    {Level::kNote, "OMP_WAIT_POLICY is active", "unset it",
     [](Machine& m) { set(m, "OMP_WAIT_POLICY", "active"); }},
    {Level::kNote, "can more than this program was built for: avx512f", "--config=native",
     [](Machine& m) { m.available |= IsaBits{1} << 13; }},
    {Level::kWarning, "the clock is hpet", "tsc", [](Machine& m) { m.clock_source = "hpet"; }},
    {Level::kWarning, "only 100 MiB of memory", "--batch-size",
     [](Machine& m) { m.memory_available = uint64_t{100} << 20; }},
    {Level::kProblem, "/tmp cannot be written", "TMPDIR",
     [](Machine& m) { m.temp.writable = false; }},
    {Level::kWarning, "/tmp has only 10 MiB free", "make room",
     [](Machine& m) { m.temp.free_bytes = uint64_t{10} << 20; }},
    {Level::kNote, "/dev/shm is small", "--shm-size",
     [](Machine& m) { m.shared_memory.free_bytes = uint64_t{1} << 20; }},
    {Level::kWarning, "only 256 open files", "ulimit -n", [](Machine& m) { m.open_files = 256; }},
    {Level::kProblem, "only 32 open files", "ulimit -n", [](Machine& m) { m.open_files = 32; }},
    {Level::kNote, "there is a GPU, but this program was built without CUDA", "--config=cuda",
     [](Machine& m) { m.gpus = {"NVIDIA H200"}; }},
    {Level::kWarning, "no usable NVIDIA driver", "install NVIDIA's driver",
     [](Machine& m) {
       m.built_with_cuda = true;
       m.cuda = "no usable NVIDIA driver";
     }},
    {Level::kNote, "little memory may be locked", "ulimit -l",
     [](Machine& m) {
       m.built_with_cuda = true;
       m.cuda = "";
       m.locked_memory = 65536;
     }},
    {Level::kProblem, "the loopback interface is down", "ip link set lo up",
     [](Machine& m) { m.interfaces.erase(m.interfaces.begin()); }},
    {Level::kNote, "no network but loopback", "bring an interface up",
     [](Machine& m) { m.interfaces.pop_back(); }},
    {Level::kWarning, "host0, stands for no address", "add '10.0.0.1 host0' to /etc/hosts",
     [](Machine& m) { m.host_addresses.clear(); }},
    {Level::kWarning, "host0, leads to 127.0.1.1", "map host0 to 10.0.0.1 in /etc/hosts",
     [](Machine& m) { m.host_addresses = {"127.0.1.1"}; }},
    {Level::kNote, "hands out ports 1024 to 65535", "ip_local_port_range",
     [](Machine& m) {
       m.system_ports = {1024, 65535};
     }},
    {Level::kProblem, "contradicts itself: WORLD_SIZE is not set", "unset RANK",
     [](Machine& m) { m.rank_error = "WORLD_SIZE is not set"; }},
    {Level::kNote, "takes itself for rank 0 of 2", "unset RANK",
     [](Machine& m) {
       set(m, "RANK", "0");
       m.rank = "rank 0 of 2";
     }},
    {Level::kNote, "MASTER_ADDR or MASTER_PORT is set", "unset them",
     [](Machine& m) { set(m, "MASTER_PORT", "29500"); }},
    {Level::kNote, "a Slurm allocation, but no step", "srun",
     [](Machine& m) { set(m, "SLURM_JOB_ID", "7"); }},
    {Level::kWarning, "no secret to share: others may read it", "set LOCKSTEP_TOKEN",
     [](Machine& m) { m.token_error = "others may read it"; }},
    {Level::kWarning, "LOCKSTEP_TOKEN has 6 characters", "openssl rand",
     [](Machine& m) { set(m, "LOCKSTEP_TOKEN", "secret"); }},
};

TEST_CASE("check_machine: nothing is wrong with a good machine") {
  CHECK(all(check_machine(good())) == "");
}

TEST_CASE("check_machine: each finding, alone, with its remedy") {
  for (const Case& c : kCases) {
    CAPTURE(c.what);
    Machine m = good();
    c.change(m);
    const auto findings = check_machine(m);
    CAPTURE(all(findings));
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].level == c.level);
    CHECK(findings[0].what.find(c.what) != std::string::npos);
    CHECK(findings[0].remedy.find(c.remedy) != std::string::npos);
  }
}

TEST_CASE("check_machine: the worst comes first") {
  Machine m = good();
  m.system_ports = {1024, 65535};
  m.quota = 1;
  m.temp.writable = false;
  const auto findings = check_machine(m);
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].level == Level::kProblem);
  CHECK(findings[1].level == Level::kWarning);
  CHECK(findings[2].level == Level::kNote);
}

TEST_CASE("check_machine: what is no fault is not found") {
  const std::function<void(Machine&)> changes[] = {
      [](Machine& m) { set(m, "OMP_NUM_THREADS", "8"); },
      [](Machine& m) { set(m, "OMP_PROC_BIND", "false"); },
      [](Machine& m) { set(m, "LOCKSTEP_TOKEN", "0123456789abcdef"); },
      [](Machine& m) { m.quota = 8; },
      [](Machine& m) { m.clock_source = "kvm-clock"; },
      [](Machine& m) {
        m.env = environment_of({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}});
      },
  };
  for (const auto& change : changes) {
    Machine m = good();
    change(m);
    CHECK(all(check_machine(m)) == "");
  }
}

TEST_CASE("facts: what is chosen and what limits") {
  Machine m = good();
  m.allowed = 2;
  m.quota = 1.5;
  m.gpus = {"NVIDIA H200"};
  m.driver = "580.65.06";
  std::string text;
  for (const auto& [name, value] : facts(m)) text += name + ": " + value + "\n";
  CAPTURE(text);
  for (const char* line :
       {"processors: 2 of 8, time for 1.5\n", "threads: 2 shared out among the ranks\n",
        "GPU: built without CUDA; NVIDIA H200, driver 580.65.06\n", "host name: host0 = 10.0.0.1\n",
        "interface: eth0 10.0.0.1 towards other machines", "limits: unlimited open files",
        "temporary files: /tmp, 1 GiB free\n"}) {
    CHECK(text.find(line) != std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::doctor

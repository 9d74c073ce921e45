#include "lockstep/base/isa_list.h"
#include "lockstep/base/str.h"
#include "lockstep/tools/doctor/machine.h"

namespace lockstep::doctor {
namespace {

std::string bytes(uint64_t n) {
  if (n == kUnlimited) return "unlimited";
  if (n >= uint64_t{1} << 30) return str(n >> 30, " GiB");
  if (n >= uint64_t{1} << 20) return str(n >> 20, " MiB");
  return str(n >> 10, " KiB");
}

std::string free_space(const Space& space) {
  return str(space.path, space.writable ? "" : " (not writable)", ", ", bytes(space.free_bytes),
             " free");
}

}  // namespace

std::string isa_names(IsaBits bits) {
  std::string names;
#define LOCKSTEP_NAME(bit, name, macro) \
  if ((bits & (IsaBits{1} << bit)) != 0) names += (names.empty() ? "" : " ") + std::string(name);
  LOCKSTEP_ISA_LIST(LOCKSTEP_NAME)
#undef LOCKSTEP_NAME
  return names;
}

std::vector<std::pair<std::string, std::string>> facts(const Machine& m) {
  std::string processors = str(m.processors);
  if (m.allowed < m.processors) processors = str(m.allowed, " of ", m.processors);
  if (m.quota < kNoQuota) processors += str(", time for ", m.quota);
  std::string gpus = m.built_with_cuda ? "built with CUDA; " : "built without CUDA; ";
  for (const std::string& gpu : m.gpus) gpus += gpu + ", ";
  if (m.gpus.empty()) gpus += "no GPU, ";
  gpus += m.driver.empty() ? "no driver" : "driver " + m.driver;
  std::string addresses;
  for (const std::string& a : m.host_addresses) addresses += (addresses.empty() ? "" : ", ") + a;
  std::string networks, chosen;
  for (const comm::Interface& i : m.interfaces) {
    networks += str(networks.empty() ? "" : ", ", i.name, " ", i.address);
    if (i.address == m.outward) chosen = i.name + " ";
  }
  const char* threads = "OMP_NUM_THREADS";
  return {
      {"backends", str("gloo (several processes), single (one process)",
                       m.built_with_cuda ? ", nccl (several GPUs)" : "")},
      {"built for", isa_names(m.built_for)},
      {"processor", str(m.processor, m.processor.empty() ? "" : "; ", isa_names(m.available))},
      {"processors", processors},
      {"threads", m.env(threads) ? str(threads, "=", *m.env(threads))
                                 : str(m.allowed, " shared out among the ranks")},
      {"memory", str(bytes(m.memory), ", ", bytes(m.memory_available), " available")},
      {"GPU", gpus},
      {"host name", str(m.host_name, " = ", addresses.empty() ? "nothing" : addresses)},
      {"networks", networks.empty() ? "none" : networks},
      {"interface", str(chosen, m.outward, " towards other machines (--interface overrides)")},
      {"temporary files", free_space(m.temp)},
      {"shared memory", free_space(m.shared_memory)},
      {"limits", str(m.open_files == kUnlimited ? "unlimited" : str(m.open_files),
                     " open files, locked memory ", bytes(m.locked_memory))},
      {"clock", m.clock_source.empty() ? "unknown" : m.clock_source},
      {"ranks", m.rank_error.empty() ? m.rank : m.rank_error},
  };
}

}  // namespace lockstep::doctor

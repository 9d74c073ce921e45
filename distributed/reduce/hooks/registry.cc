#include "lockstep/distributed/reduce/hooks/registry.h"

#include "lockstep/distributed/reduce/hooks/all_reduce_hook.h"
#include "lockstep/distributed/reduce/hooks/half_hook.h"
#include "lockstep/distributed/reduce/hooks/noop_hook.h"
#include "lockstep/distributed/reduce/hooks/topk_hook.h"

namespace lockstep {

CommHookRegistry builtin_comm_hooks() {
  return {
      {"allreduce", [](CommHookOptions&) { return std::make_shared<AllReduceHook>(); }},
      {"bf16",
       [](CommHookOptions&) {
         return std::make_shared<HalfHook>(HalfHookOptions{.dtype = DType::kBF16});
       }},
      {"fp16",
       [](CommHookOptions& options) {
         const bool refuse = options.choice("overflow", {"error", "inf"}) == "error";
         return std::make_shared<HalfHook>(
             HalfHookOptions{.dtype = DType::kF16, .refuse_overflow = refuse});
       }},
      {"noop", [](CommHookOptions&) { return std::make_shared<NoopHook>(); }},
      {"topk",
       [](CommHookOptions& options) {
         return std::make_shared<TopKHook>(TopKHookOptions{.ratio = options.number("ratio", 0.01)});
       }},
  };
}

std::shared_ptr<CommHook> parse_comm_hook(const std::string& text,
                                          const CommHookRegistry& registry) {
  const size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const auto found = registry.find(name);
  if (found == registry.end()) {
    std::string all;
    for (const auto& [known, factory] : registry) all += (all.empty() ? "" : ", ") + known;
    throw ArgumentError(str("comm hook: wanted one of ", all, "; got '", name, "'"));
  }
  CommHookOptions options(name, colon == std::string::npos ? "" : text.substr(colon + 1));
  std::shared_ptr<CommHook> hook = found->second(options);
  options.require_all_used();
  return hook;
}

}  // namespace lockstep

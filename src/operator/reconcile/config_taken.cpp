#include "operator/reconcile/config_taken.hpp"

#include <fmt/format.h>

#include "kube/condition.hpp"
#include "operator/api/derived.hpp"
#include "operator/api/names.hpp"

namespace bascule::op::reconcile {

namespace {

using namespace std::chrono_literals;

constexpr Duration kPatience = 3min;
constexpr Duration kAskAgain = 10s;
constexpr std::string_view kSentence = "slurmctld goes on with an older configuration, it did not take the newest one";

bool said_before(const json::Value& controller) {
  const json::Value* degraded = kube::find_condition(json::array_at(controller, {"status", "conditions"}), "Degraded");
  return degraded != nullptr && json::string_at(*degraded, {"message"}).find(kSentence) != std::string_view::npos;
}

}  // namespace

ConfigVerdict judge_config(ConfigMemory& memory, std::string_view wanted, RunningConfig running, bool said_before,
                           WallTime now) {
  if (memory.digest != wanted) memory = {.digest = std::string(wanted), .since = now};
  memory.settled = running == RunningConfig::kWanted || running == RunningConfig::kUntold;
  if (memory.settled) return {};
  // A clock that was put back begins anew.
  if (now < memory.since) memory.since = now;
  const bool late = running == RunningConfig::kOther && now - memory.since >= kPatience;
  return {.refused = said_before || late, .again = kAskAgain};
}

Task<std::optional<Duration>> ConfigWatch::look(ObjectPtr controller, Plan& plan, WallTime now, std::stop_token stop) {
  const NamespacedName key = controller->meta.key;
  if (plan.config_digest.empty() || !ask_) {
    memory_.erase(key);
    co_return std::nullopt;
  }
  const auto known = memory_.find(key);
  if (known != memory_.end() && known->second.settled && known->second.digest == plan.config_digest) {
    co_return std::nullopt;
  }
  const RunningConfig running = co_await ask_(key, plan.config_digest, stop);
  const ConfigVerdict verdict =
      judge_config(memory_[key], plan.config_digest, running, said_before(controller->value), now);
  if (verdict.refused) {
    std::string sentence =
        fmt::format("{}; `bascule explain controller/{} -n {}` and the log of container {} of pod {} say why",
                    kSentence, key.name, key.ns, names::kReconfigure, names::controller_pod(key.name, 0));
    plan.faults.push_back({"ConfigNotTaken", std::move(sentence)});
  }
  co_return verdict.again;
}

}  // namespace bascule::op::reconcile

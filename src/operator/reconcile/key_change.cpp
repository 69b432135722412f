#include "operator/reconcile/key_change.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/api/names.hpp"
#include "operator/api/resources.hpp"
#include "operator/builders/slurm_key.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::reconcile {

namespace {

std::int64_t count(const json::Value& node_set, std::string_view field) {
  return json::int_at(node_set, {"status", field}).value_or(0);
}

bool is_of(const nodeset::SlurmNodeView& node, const std::set<std::string>& features) {
  return std::ranges::any_of(node.features, [&](const std::string& one) { return features.contains(one); });
}

// No job runs there, and none can start.
bool is_free(const nodeset::SlurmNodeView& node) {
  if (nodeset::is_busy(node)) return false;
  const bool away = node.states.base == slurm::NodeState::kDown || node.states.base == slurm::NodeState::kFuture ||
                    node.states.has(slurm::NodeFlag::kNotResponding);
  return away || nodeset::is_clear(node);
}

std::string sentence_of(const KeyWait& wait, NodesStand stand) {
  const std::string order = fmt::format("set the Controller's annotation {} to \"true\"", names::kTakeSlurmKey);
  std::string sentence = wait.rule;
  if (wait.jwt) {
    sentence +=
        ". The JWT key has changed too, and slurmctld has neither yet: it refuses all new tokens until then, also the "
        "operator's";
  }
  if (stand == NodesStand::kAsked) return sentence + ". slurmctld is being asked about the nodes";
  if (stand == NodesStand::kOpen) {
    return fmt::format("{}. Some are not drained, or their jobs have not ended: drain them, or {} to lose the jobs",
                       sentence, order);
  }
  return fmt::format(
      "{}. It is not known whether jobs run{}, since slurmctld or slurmrestd does not answer; if none "
      "do, {}{}",
      sentence, wait.jobs_seen ? ", as they did by the last that was seen" : "", order,
      wait.jwt ? ", or put the old JWT key back until then" : "");
}

}  // namespace

bool has_workers(const json::Value& node_set) {
  return count(node_set, "readyReplicas") > 0;
}

std::optional<KeyWait> key_wait(const Controller& controller, const json::Value* live, const KeyHashes& keys,
                                const std::vector<const json::Value*>& node_sets) {
  if (key_in_use(controller, live, keys.slurm) == keys.slurm) return std::nullopt;
  KeyWait wait;
  wait.rule = fmt::format(
      "the key in Secret {} has changed, and slurmctld takes it when no node of the NodeSets runs jobs or can be given "
      "any: workers keep the old key, and jobs there would be lost. Until then StatefulSet {} stays as it is",
      controller.keys.slurm.name, names::controller(controller.meta.name));
  wait.jwt = json::string_at(*live, {"spec", "template", "metadata", "annotations", names::kJwtKeyHash}) != keys.jwt;
  for (const json::Value* node_set : node_sets) {
    wait.workers = wait.workers || has_workers(*node_set);
    wait.jobs_seen = wait.jobs_seen || count(*node_set, "slurmAllocated") > 0;
  }
  return wait;
}

NodesStand stand_of(const std::optional<NodesNow>& now, const std::set<std::string>& features) {
  if (!now) return NodesStand::kUnknown;
  const auto open = [&](const nodeset::SlurmNodeView& node) { return is_of(node, features) && !is_free(node); };
  if (std::ranges::any_of(now->nodes, open)) return NodesStand::kOpen;
  return now->whole ? NodesStand::kClear : NodesStand::kUnknown;
}

bool hold_key(Plan& plan, NodesStand stand) {
  if (!plan.key_wait || stand == NodesStand::kClear) return false;
  if (stand == NodesStand::kUnknown && !plan.key_wait->workers) return false;
  std::erase_if(plan.children, [](const Child& child) { return child.resource == &kStatefulSets; });
  plan.config_digest.clear();  // slurmctld takes no other configuration until then (builders/scripts.hpp)
  plan.waits.insert(plan.waits.begin(), {sentence_of(*plan.key_wait, stand)});
  return true;
}

}  // namespace bascule::op::reconcile

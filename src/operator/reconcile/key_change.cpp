#include "operator/reconcile/key_change.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "operator/api/names.hpp"
#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/reconcile/controller_ref.hpp"

namespace bascule::op::reconcile {

namespace {

std::int64_t count(const json::Value& node_set, std::string_view field) {
  return json::int_at(node_set, {"status", field}).value_or(0);
}

// One Accounting has one key: who takes another alone is not heard by its slurmdbd.
std::string sentence_of(const KeyWait& wait, const std::vector<std::string>& beside) {
  return fmt::format(
      "{}. Its own nodes are clear, those of Controller {}, which has the same Accounting, are not or not known to be: "
      "drain them, or set the annotation {} of this Controller to \"true\" to go on without it",
      wait.rule, fmt::join(beside, ", "), names::kTakeSlurmKey);
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

// Those of the same Accounting whose slurmctld has the same key and waits for another one too.
std::vector<KeyWait::Beside> waiting_beside(const Controller& controller, const std::string& in_use, View& view) {
  std::vector<KeyWait::Beside> out;
  if (controller.accounting.empty()) return out;
  for (const json::Value* object : view.controllers_of(controller.accounting)) {
    if (json::string_at(*object, {"metadata", "name"}) == controller.meta.name) continue;
    if (json::find(*object, {"metadata", "deletionTimestamp"})) continue;
    const ControllerKey key = key_of_controller(*object, view);
    if (key.now == in_use || key.in_use.hash != in_use) continue;
    const std::string name(json::string_at(*object, {"metadata", "name"}));
    const auto sets = view.node_sets_of(name);
    out.push_back({name, std::ranges::any_of(sets, [](const auto* set) { return has_workers(*set); })});
  }
  return out;
}

}  // namespace

bool has_workers(const json::Value& node_set) {
  return count(node_set, "replicas") > 0;
}

std::optional<KeyWait> key_wait(const Controller& controller, const json::Value* live, const KeyHashes& keys,
                                View& view) {
  const KeyInUse in_use = key_in_use(controller, live, keys.slurm);
  if (in_use.hash == keys.slurm) return std::nullopt;
  KeyWait wait;
  wait.rule = fmt::format(
      "the key in Secret {} has changed, and slurmctld takes it when no node of the cluster runs jobs or can be given "
      "any: "
      "workers keep the old key, and jobs there would be lost. Until then StatefulSet {} stays as it is",
      controller.keys.slurm.name, names::controller(controller.meta.name));
  wait.jwt = json::string_at(*live, {"spec", "template", "metadata", "annotations", names::kJwtKeyHash}) != keys.jwt;
  for (const json::Value* node_set : view.node_sets_of(controller.meta.name)) {
    wait.workers = wait.workers || has_workers(*node_set);
    wait.jobs_seen = wait.jobs_seen || count(*node_set, "slurmAllocated") > 0;
  }
  wait.beside = waiting_beside(controller, in_use.hash, view);
  return wait;
}

bool holds_key(NodesStand stand, bool workers) noexcept {
  return stand != NodesStand::kClear && (stand != NodesStand::kUnknown || workers);
}

bool hold_key(Plan& plan, NodesStand stand, const std::vector<std::string>& beside) {
  if (!plan.key_wait) return false;
  const bool own = holds_key(stand, plan.key_wait->workers);
  if (!own && beside.empty()) return false;
  std::erase_if(plan.children, [](const Child& child) { return child.resource == &kStatefulSets; });
  plan.config_digest.clear();  // slurmctld takes no other configuration until then (builders/scripts.hpp)
  std::string sentence = own ? sentence_of(*plan.key_wait, stand) : sentence_of(*plan.key_wait, beside);
  plan.waits.insert(plan.waits.begin(), {std::move(sentence)});
  return true;
}

}  // namespace bascule::op::reconcile

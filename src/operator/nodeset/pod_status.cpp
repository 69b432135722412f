#include "operator/nodeset/pod_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/time.hpp"
#include "operator/api/names.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/records.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset {

namespace {

// A slurmd whose pod is ready has registered by then.
constexpr Duration kRegisters = std::chrono::seconds(5);

void set(std::map<std::string, std::optional<std::string>>& changes, std::string_view key,
         const std::optional<std::string>& has, const std::optional<std::string>& wanted) {
  if (has != wanted) changes[std::string(key)] = wanted;
}

// nullopt: they are as they should be.
std::optional<std::vector<PodCondition>> new_conditions(const PodFacts& facts, WallTime now) {
  std::vector<PodCondition> wanted;
  if (facts.node != nullptr) wanted = conditions_of(*facts.node);
  const std::vector<PodCondition>& has = facts.pod->slurm_conditions;
  bool same = has.size() == wanted.size();
  for (PodCondition& condition : wanted) {
    const auto old = std::ranges::find(has, condition.type, &PodCondition::type);
    condition.since = old == has.end() ? now : old->since;
    same = same && old != has.end() && old->message == condition.message;
  }
  if (same) return std::nullopt;
  return wanted;
}

void show_slurm(Pass& pass, const PodFacts& facts, PatchPod& patch) {
  const PodView& pod = *facts.pod;
  if (facts.registration == Registration::kUnknown) return;
  if (auto conditions = new_conditions(facts, pass.now)) {
    pass.plan.act(SetPodConditions{pod.name, pod.uid, std::move(*conditions)}, "the state of its Slurm node changed");
  }
  const bool busy = facts.node != nullptr && is_busy(*facts.node);
  std::optional<std::string> protect, deadline;
  if (busy && pass.spec().protect) protect = "true";
  if (facts.node != nullptr && facts.node->deadline) deadline = print_rfc3339(*facts.node->deadline);
  set(patch.labels, names::kPodProtect, pod.protect_label, protect);
  set(patch.annotations, names::kPodDeadline, pod.deadline, deadline);
}

// The pod's annotation is what slurmd starts with; but Slurm takes nothing from a slurmd whose node it knows already,
// as when a pod has moved. Slurm itself may spell it otherwise: what was told of a pod once is not told again.
void tell_topology(Pass& pass, const PodFacts& facts, PatchPod& patch) {
  const std::string wanted = facts.kube_node->topology.value_or("");
  const bool annotated = facts.pod->topology.value_or("") == wanted;
  // Without an annotation nobody but Slurm's own configuration says anything.
  if (annotated && wanted.empty()) return;
  const auto sent = pass.memory.topology.find(facts.slurm_name);
  if (sent != pass.memory.topology.end() && sent->second.first == wanted &&
      pass.state.slurm.as_of > sent->second.second) {
    pass.memory.topology_told[facts.pod->uid] = wanted;
  }
  const auto told = pass.memory.topology_told.find(facts.pod->uid);
  const bool done =
      facts.node->topology == wanted || (told != pass.memory.topology_told.end() && told->second == wanted);
  if (done) {
    if (!annotated) patch.annotations[std::string(names::kTopologySpec)] = wanted;
    return;
  }
  WriteSlurmNode write;
  write.node = facts.slurm_name;
  write.topology = wanted;
  pass.plan.act(std::move(write), fmt::format("annotation {} of node {}", names::kTopologySpec, facts.kube_node->name));
}

void tell_features(Pass& pass, const PodFacts& facts) {
  const std::vector<std::string> wanted = list_items(facts.kube_node->features.value_or(""));
  auto features = with_features(facts.node->features, wanted);
  auto active = with_features(facts.node->active_features, wanted);
  const auto as_set = [](const std::vector<std::string>& items) { return std::set(items.begin(), items.end()); };
  if (as_set(features) == as_set(facts.node->features) && as_set(active) == as_set(facts.node->active_features)) return;
  WriteSlurmNode write;
  write.node = facts.slurm_name;
  write.features = std::move(features);
  write.active_features = std::move(active);
  pass.plan.act(std::move(write), fmt::format("annotation {} of node {}", names::kFeaturesSpec, facts.kube_node->name));
}

// Whether slurmctld was asked after the pod's slurmd had registered: before, nothing shows that slurmctld then gave up
// the host that the comment names.
bool is_looked_at(Pass& pass, const PodView& pod) {
  const WallTime since = pass.memory.healthy_since.try_emplace(pod.uid, pass.now).first->second;
  if (pass.state.slurm.as_of > since + kRegisters) return true;
  pass.plan.wake_at(pass.now + kRegisters);
  return false;
}

}  // namespace

void reflect(Pass& pass, const PodFacts& facts, PatchPod& patch) {
  for (auto& [key, value] : identity_labels(pass.spec(), *facts.pod)) patch.labels[key] = std::move(value);
  show_slurm(pass, facts, patch);
  if (facts.registration != Registration::kRegistered) return;
  // Whose host slurmctld gave up has to be known until the node is back.
  const bool healthy = facts.pod->healthy();
  if (!healthy) pass.memory.healthy_since.erase(facts.pod->uid);
  const bool another = healthy && is_of_another(pass.spec(), *facts.pod, *facts.node);
  const bool kept = another && (is_given_up(*facts.node) || !is_looked_at(pass, *facts.pod));
  if (healthy && !kept) {
    std::string comment = print_record(record_of(pass.spec(), *facts.pod));
    if (facts.node->comment != comment) {
      WriteSlurmNode write;
      write.node = facts.slurm_name;
      write.comment = std::move(comment);
      pass.plan.act(std::move(write), "the node's comment says which pod it is");
    }
  }
  if (facts.kube_node == nullptr) return;
  tell_topology(pass, facts, patch);
  tell_features(pass, facts);
}

std::vector<std::string> list_items(std::string_view text) {
  std::set<std::string> items;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t to = std::min(text.find(',', from), text.size());
    std::string_view item = text.substr(from, to - from);
    from = to + 1;
    const std::size_t first = item.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) continue;
    items.emplace(item.substr(first, item.find_last_not_of(" \t\r\n") - first + 1));
  }
  return {items.begin(), items.end()};
}

std::vector<std::string> with_features(const std::vector<std::string>& current,
                                       const std::vector<std::string>& wanted) {
  std::set<std::string> all;
  for (const std::string& feature : current) {
    if (!feature.starts_with(names::kFeaturePrefix)) all.insert(feature);
  }
  for (const std::string& feature : wanted) all.insert(fmt::format("{}{}", names::kFeaturePrefix, feature));
  return {all.begin(), all.end()};
}

}  // namespace bascule::op::nodeset

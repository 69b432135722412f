#include "bridge/explain_read.hpp"

#include <algorithm>
#include <map>

#include "bridge/claim_plan.hpp"
#include "bridge/description.hpp"
#include "bridge/explain_node.hpp"
#include "bridge/names.hpp"
#include "bridge/owners.hpp"

namespace bascule::bridge {

namespace {

// The owner walk of the scheduler. Its informer of Jobs is never started: a Job is read when it is needed.
class Reader final {
 public:
  explicit Reader(kube::Client& client)
      : client_(client),
        jobs_(client, {.resource = kube::resources::kJobs}, kube::decode_job, interner_),
        owners_(client, jobs_) {}

  // Pods of the namespace that name a group, by unit.
  Task<std::map<Uid, std::vector<PodPtr>>> members(std::string ns, std::string labels) {
    const json::Value list = co_await client_.list(kube::resources::kPods, std::move(ns), {std::move(labels), {}});
    std::map<Uid, std::vector<PodPtr>> out;
    if (const json::Array* items = json::array_at(list, {"items"})) {
      for (const json::Value& item : *items) {
        PodPtr pod = decode(item);
        if (group_of(*pod)) out[unit_of(*pod)].push_back(std::move(pod));
      }
    }
    co_return out;
  }

  Task<Owners::Found> root_of(PodPtr pod) { return owners_.root_of(std::move(pod), {}); }
  // Of a group, without the Job above the pod: that only adds annotations, and who asks may not be allowed to read it.
  Task<Owners::Found> root(PodPtr pod) {
    auto alone = std::make_shared<kube::Pod>(*pod);
    alone->meta.owners.clear();
    return owners_.root_of(std::move(alone), {});
  }
  PodPtr decode(const json::Value& pod) { return kube::decode_pod(json::dump(pod), interner_); }

  // A pod as one of the group's would be.
  PodPtr sample(GroupKind kind, const NamespacedName& key) {
    auto pod = std::make_shared<kube::Pod>();
    pod->meta.key = {key.ns, ""};
    switch (kind) {
      case GroupKind::kWorkload:
        pod->scheduling_group = interner_(key.name);
        break;
      case GroupKind::kCoscheduling:
        pod->meta.labels = {{interner_(names::kPodGroup), interner_(key.name)}};
        break;
      case GroupKind::kLeaderWorker:
        pod->meta.labels = {{interner_(names::kLwsGroupKey), interner_("none")},
                            {interner_(names::kLwsName), interner_(key.name)}};
        break;
    }
    return pod;
  }

 private:
  kube::Client& client_;
  json::Interner interner_;
  kube::Informer<kube::Job> jobs_;
  Owners owners_;
};

// The pods of a group by its label where it has one; a workload group is a field that cannot be selected by.
std::string selector_of(const Group& group) {
  switch (group.kind) {
    case GroupKind::kWorkload:
      break;
    case GroupKind::kCoscheduling:
      return std::string(names::kPodGroup) + "=" + group.object.name;
    case GroupKind::kLeaderWorker:
      return std::string(names::kLwsName) + "=" + group.object.name;
  }
  return {};
}

void tell_root(const Owners::Found& found, const PodPtr& pod, PodSurroundings& around) {
  const Root* root = std::get_if<Root>(&found);
  if (root == nullptr) return;
  if (root->uid != pod->meta.uid) {
    around.root = (root->louder.empty() ? "" : root->louder + " and ") + root->kind + " " + root->key.str();
  }
  for (const std::string& one : root_warnings(*root, {pod})) around.doubts += (around.doubts.empty() ? "" : "; ") + one;
}

// Of a pod that has one, or is about to get it: before it has a node, a claim that is not there is nothing to tell.
Task<std::optional<ClaimStand>> read_claim(kube::Client& client, PodPtr pod) {
  if (!needs_claim(*pod) || pod->terminal()) co_return std::nullopt;
  NamespacedName key = claim_key(*pod);
  if (!pod->extended_claim.empty()) key.name = pod->extended_claim;
  std::optional<json::Value> claim;
  try {
    claim = co_await client.get(kResourceClaims, key);
  } catch (const kube::NotFound&) {
  } catch (const kube::NotServed&) {
  } catch (const kube::Forbidden&) {  // whoever may read pods need not be allowed to read claims
    co_return std::nullopt;
  }
  if (!claim && !pod->bound()) co_return std::nullopt;
  co_return stand_of_claim(key, claim ? &*claim : nullptr);
}

}  // namespace

Task<Explanation> read_pod_explanation(kube::Client& client, NamespacedName key) {
  json::Value pod;
  bool there = true;
  try {
    pod = co_await client.get(kube::resources::kPods, key);
  } catch (const kube::NotFound&) {
    there = false;
  }
  if (!there) throw NothingToExplain("there is no pod " + key.str() + "; -n chooses the namespace");
  PodSurroundings around;
  around.events =
      co_await kube::read_events(client, "Pod", key, std::string(json::string_at(pod, {"metadata", "uid"})));
  Reader reader(client);
  const PodPtr decoded = reader.decode(pod);
  around.claim = co_await read_claim(client, decoded);
  if (const auto group = group_of(*decoded)) {
    auto members = co_await reader.members(key.ns, selector_of(*group));
    tell_root(co_await reader.root_of(decoded), decoded, around);
    const Owners::Found root = co_await reader.root(decoded);
    around.group = explain_group(*group, root, std::move(members[group->unit]));
  } else if (!decoded->terminal()) {
    tell_root(co_await reader.root_of(decoded), decoded, around);
  }
  co_return explain_pod(pod, std::move(around));
}

Task<Explanation> read_node_explanation(kube::Client& client, std::string name) {
  const NamespacedName key{"", name};
  json::Value node;
  bool there = true;
  try {
    node = co_await client.get(kube::resources::kNodes, key);
  } catch (const kube::NotFound&) {
    there = false;
  }
  if (!there) throw NothingToExplain("there is no node " + name);
  const kube::ReadEvents events =
      co_await kube::read_events(client, "Node", key, std::string(json::string_at(node, {"metadata", "uid"})));
  co_return explain_node(node, events);
}

Task<std::vector<GroupExplanation>> read_group_explanations(kube::Client& client, GroupObject kind,
                                                            NamespacedName key) {
  Reader reader(client);
  std::vector<GroupExplanation> out;
  std::string problems;
  std::vector<GroupKind> kinds{GroupKind::kCoscheduling, GroupKind::kWorkload};
  if (kind == GroupObject::kLeaderWorkerSet) kinds = {GroupKind::kLeaderWorker};
  for (const GroupKind one : kinds) {
    const PodPtr sample = reader.sample(one, key);
    const Group group = *group_of(*sample);
    auto units = co_await reader.members(key.ns, selector_of(group));
    std::erase_if(units, [&](const auto& unit) {
      const Group other = *group_of(*unit.second.front());
      return other.kind != one || other.object != key;
    });
    // By rank, so that group 2 of a set comes before group 10.
    std::vector<std::vector<PodPtr>> gangs;
    for (auto& [unit, pods] : units) {
      sort_by_rank(pods);
      gangs.push_back(std::move(pods));
    }
    std::ranges::sort(gangs, ranks_before, [](const auto& pods) -> const kube::Pod& { return *pods.front(); });
    const Owners::Found root = co_await reader.root(gangs.empty() ? sample : gangs.front().front());
    if (gangs.empty()) {
      if (std::holds_alternative<Root>(root)) {
        out.push_back(explain_group(group, root, {}));
      } else {
        problems += (problems.empty() ? "" : "; ") + std::get<std::string>(root);
      }
    }
    for (auto& pods : gangs) {
      const Group one_of = *group_of(*pods.front());
      out.push_back(explain_group(one_of, root, std::move(pods)));
    }
  }
  if (out.empty()) {
    throw NothingToExplain("no pod of namespace " + key.ns + " names the group " + key.name + ", and " + problems +
                           "; -n chooses the namespace");
  }
  co_return out;
}

}  // namespace bascule::bridge

#include "bridge/group_status.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/time.hpp"

namespace bascule::bridge {

namespace {

constexpr std::string_view kType = "PodGroupScheduled";

std::string_view status_of(const json::Value& group) {
  const json::Array* conditions = json::array_at(group, {"status", "conditions"});
  if (conditions == nullptr) return {};
  for (const json::Value& condition : *conditions) {
    if (json::string_at(condition, {"type"}) == kType) return json::string_at(condition, {"status"});
  }
  return {};
}

// A merge patch of the whole list, on condition that nobody has changed the object meanwhile.
json::Value patch_of(const json::Value& group, bool scheduled, const std::string& scheduler, WallTime now) {
  json::Object condition{{"type", kType},
                         {"status", scheduled ? "True" : "False"},
                         {"reason", scheduled ? "Scheduled" : "Unschedulable"},
                         {"message", scheduled ? "Pod group admitted by " + scheduler
                                               : std::string("A member of the pod group waits for a node again")},
                         {"observedGeneration", json::int_at(group, {"metadata", "generation"}).value_or(0)},
                         {"lastTransitionTime", print_rfc3339(now)}};
  json::Array all;
  if (const json::Array* others = json::array_at(group, {"status", "conditions"})) {
    std::ranges::copy_if(*others, std::back_inserter(all),
                         [](const json::Value& other) { return json::string_at(other, {"type"}) != kType; });
  }
  all.emplace_back(std::move(condition));
  return json::Object{
      {"metadata", json::Object{{"resourceVersion", json::string_at(group, {"metadata", "resourceVersion"})}}},
      {"status", json::Object{{"conditions", std::move(all)}}}};
}

}  // namespace

const kube::Resource& resource_of(GroupKind kind) {
  static const kube::Resource workload{"scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", true};
  static const kube::Resource coscheduling{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true};
  static const kube::Resource sets{"leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet", true};
  switch (kind) {
    case GroupKind::kWorkload:
      return workload;
    case GroupKind::kCoscheduling:
      return coscheduling;
    case GroupKind::kLeaderWorker:
      return sets;
  }
  return workload;
}

std::optional<bool> group_scheduled(const std::vector<PodPtr>& pods) {
  const auto live = [](const PodPtr& pod) { return !pod->terminal() && !pod->deleting(); };
  if (std::ranges::none_of(pods, live)) return std::nullopt;
  return std::ranges::all_of(pods, [&](const PodPtr& pod) { return !live(pod) || pod->bound(); });
}

bool GroupStatus::untold(const Group& group, const std::vector<PodPtr>& pods) const {
  const auto scheduled = group_scheduled(pods);
  if (group.kind != GroupKind::kWorkload || !scheduled) return false;
  const auto said = said_.find(group.unit);
  return said == said_.end() || said->second != *scheduled;
}

Task<> GroupStatus::tell(Group group, std::vector<PodPtr> pods, std::stop_token stop) {
  if (!untold(group, pods)) co_return;
  const auto scheduled = group_scheduled(pods);
  try {
    const kube::Resource& resource = resource_of(group.kind);
    const json::Value object = co_await client_.get(resource, group.object, {}, stop);
    // A group that never was scheduled needs no word that it is not.
    const bool now = status_of(object) == "True";
    if (now != *scheduled) {
      co_await client_.patch(resource, group.object, kube::PatchType::kMerge,
                             patch_of(object, *scheduled, scheduler_, client_.loop().wall()), "status", {}, stop);
      log::info("pod group condition written", {{"group", group.object}, {"scheduled", *scheduled ? "True" : "False"}});
    }
    said_.insert_or_assign(group.unit, *scheduled);
  } catch (const kube::NotFound&) {
    said_.insert_or_assign(group.unit, *scheduled);
  } catch (const kube::Error& error) {
    // The pods run all the same; the next change tries again.
    log::limited(log::Level::kWarning, std::chrono::seconds(10), "pod group condition not written",
                 {{"group", group.object}, {"why", error}});
  }
}

}  // namespace bascule::bridge

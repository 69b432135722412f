#include "operator/reconcile/state_place.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/api/names.hpp"

namespace bascule::op::reconcile {

namespace {

const json::Value* named(const json::Array* list, std::string_view name, json::Path path = {"name"}) {
  if (!list) return nullptr;
  const auto found =
      std::ranges::find(*list, name, [path](const json::Value& one) { return json::string_at(one, path); });
  return found == list->end() ? nullptr : &*found;
}

struct Place {
  std::string store;
  std::string path;  // bears the name of the cluster, as slurmctld's files do; empty: it is no slurmctld of ours
};

Place place_of(const json::Value& set) {
  Place place;
  const json::Value* daemon =
      named(json::array_at(set, {"spec", "template", "spec", "containers"}), names::kSlurmctld.name);
  if (!daemon) return place;
  const json::Value* mount = named(json::array_at(*daemon, {"volumeMounts"}), names::kStateSaveVolume);
  if (!mount) return place;
  place.path = json::string_at(*mount, {"mountPath"});
  if (named(json::array_at(set, {"spec", "volumeClaimTemplates"}), names::kStateSaveVolume, {"metadata", "name"})) {
    place.store = "a claim of the StatefulSet's template";
    return place;
  }
  const json::Value* volume =
      named(json::array_at(set, {"spec", "template", "spec", "volumes"}), names::kStateSaveVolume);
  const std::string_view claim =
      volume ? json::string_at(*volume, {"persistentVolumeClaim", "claimName"}) : std::string_view();
  place.store = claim.empty() ? std::string("a volume without a claim") : fmt::format("claim {}", claim);
  return place;
}

}  // namespace

std::optional<std::string> state_elsewhere(const json::Value* live, const json::Value& wanted) {
  if (!live) return std::nullopt;
  const Place there = place_of(*live);
  const Place here = place_of(wanted);
  if (there.path.empty() || here.path.empty()) return std::nullopt;
  if (there.store == here.store && there.path == here.path) return std::nullopt;
  return fmt::format(
      "StatefulSet {} keeps slurmctld's state in {} at {}, and this Controller says {} at {}, where slurmctld would "
      "start without its jobs, which then end: it and its slurm.conf stay as they are. Put spec.persistence and "
      "spec.clusterName back, or delete the StatefulSet when no job runs",
      json::string_at(wanted, {"metadata", "name"}), there.store, there.path, here.store, here.path);
}

}  // namespace bascule::op::reconcile

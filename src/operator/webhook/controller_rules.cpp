// Rules for a Controller. Source: slurm.conf(5), "ClusterName" (40 characters) and "Include"; Kubernetes, projected
// volumes (of two sources with the same path the last wins).
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "base/text.hpp"
#include "operator/config/files.hpp"
#include "operator/config/parameters.hpp"
#include "operator/webhook/common_rules.hpp"

namespace bascule::op {

namespace {

constexpr std::size_t kMaxClusterName = 40;

struct FileList {
  std::string_view field;
  bool scripts;
};
constexpr std::array kFileLists = {
    FileList{"configFileRefs", false},           FileList{"prologScriptRefs", true},
    FileList{"epilogScriptRefs", true},          FileList{"prologSlurmctldScriptRefs", true},
    FileList{"epilogSlurmctldScriptRefs", true},
};

// What Slurm reads by itself.
constexpr std::array<std::string_view, 14> kSlurmFiles = {
    "acct_gather.conf", "burst_buffer.conf",  "cgroup.conf",    "cli_filter.lua", "gres.conf",
    "helpers.conf",     "job_container.conf", "job_submit.lua", "mpi.conf",       "namespace.yaml",
    "oci.conf",         "plugstack.conf",     "topology.conf",  "topology.yaml"};

// Lines of slurm.conf that the operator's objects are made to fit; compared in lower case.
constexpr std::array<std::string_view, 11> kOwnKeys = {
    "authalttypes",  "authtype",   "clustername", "credtype",  "slurmctldaddr",    "slurmctldhost",
    "slurmctldport", "slurmdport", "slurmduser",  "slurmuser", "statesavelocation"};

bool contains(const auto& list, std::string_view text) {
  return std::ranges::find(list, text) != list.end();
}

std::string cluster_name(const json::Value& object) {
  const std::string_view own = json::string_at(object, {"spec", "clusterName"});
  return own.empty() ? fmt::format("{}_{}", namespace_of(object), name_of(object)) : std::string(own);
}

// fn(name of a ConfigMap, field path)
template <class F>
void for_each_ref(const json::Value& object, std::string_view field, F&& fn) {
  const json::Array* list = json::array_at(object, {"spec", field});
  if (list == nullptr) return;
  for (std::size_t i = 0; i < list->size(); ++i) {
    fn(json::string_at((*list)[i], {"name"}), fmt::format("spec.{}[{}]", field, i));
  }
}

void cluster_name_rules(const json::Value& object, const json::Value* old, Findings& findings) {
  const std::string name = cluster_name(object);
  if (old != nullptr) {
    const std::string before = cluster_name(*old);
    if (before == name) return;
    // A cluster outside keeps its state and its name itself; a wrong one here may be mended.
    if (!json::bool_at(object, {"spec", "external"}) || !json::bool_at(*old, {"spec", "external"})) {
      findings.fault(
          "spec.clusterName",
          "cannot be changed from {} to {}: Slurm's state and accounting bear the name; make a new Controller",
          quoted(before), quoted(name));
      return;
    }
  }
  if (name.size() > kMaxClusterName) {
    findings.fault("spec.clusterName", "{} has {} characters; Slurm allows {}", quoted(name), name.size(),
                   kMaxClusterName);
  }
  const bool plain = std::ranges::all_of(
      name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.'; });
  if (!plain || name.front() == '.') {
    findings.fault("spec.clusterName", "{} cannot name a cluster; use letters, digits, '_', '-' and '.'", quoted(name));
  }
}

// Where a file of /etc/slurm comes from.
struct Place {
  std::string map;
  std::string field;
};

void one_file(std::string_view map, const std::string& key, const FileList& list, const std::string& field, bool jwks,
              Findings& findings) {
  // A second file of the name would win.
  if (is_own_file(key, jwks)) {
    findings.fault(field, "{} of ConfigMap {} would replace the file the operator makes; use extraConf", key, map);
  } else if (!list.scripts && !contains(kSlurmFiles, key)) {
    findings.warn(field,
                  "{} of ConfigMap {} is no file Slurm reads by itself; it counts only where another file names it",
                  key, map);
  }
}

void file_rules(const json::Value& object, const Known& known, Findings& findings) {
  const bool jwks = !key_of(object, "jwksKeyRef").name.empty();
  std::map<std::string, Place, std::less<>> places;  // by file
  for (const FileList& list : kFileLists) {
    for_each_ref(object, list.field, [&](std::string_view map, const std::string& field) {
      if (map.empty()) {
        findings.fault(field + ".name", "is empty; name a ConfigMap");
        return;
      }
      const auto found = known.config_maps.find(map);
      if (found == known.config_maps.end()) return;
      if (!found->second.exists) {
        findings.warn(field, "ConfigMap {} does not exist yet; the configuration waits for it", map);
        return;
      }
      for (const std::string& key : found->second.keys) {
        one_file(map, key, list, field, jwks, findings);
        const auto [place, fresh] = places.try_emplace(key, Place{std::string(map), field});
        // One map may serve several purposes.
        if (!fresh && place->second.map != map) {
          findings.fault(field, "{} of ConfigMap {} comes from {} too; all of them share one folder, so keep one", key,
                         map, place->second.field);
        }
      }
    });
  }
}

void extra_conf_rules(const json::Value& object, Findings& findings) {
  for (const Option& option : options_of(json::string_at(object, {"spec", "extraConf"}))) {
    std::string key = option.key;
    std::ranges::transform(key, key.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (contains(kOwnKeys, key)) {
      findings.warn("spec.extraConf",
                    "{} is the operator's to set; the last line counts, so this one breaks what fits it", option.key);
    }
  }
}

std::set<std::string> partitions_of(const json::Value& object) {
  std::set<std::string> names;
  for (const Option& option : options_of(json::string_at(object, {"spec", "extraConf"}))) {
    if (lowered(option.key) == "partitionname" && lowered(option.value) != "default") names.insert(option.value);
  }
  return names;
}

// Lines of NodeSets stay until no job runs there; these are the user's.
void partition_rules(const json::Value& object, const json::Value& old, Findings& findings) {
  const std::set<std::string> after = partitions_of(object);
  for (const std::string& name : partitions_of(old)) {
    if (after.contains(name)) continue;
    findings.warn("spec.extraConf",
                  "partition {} goes, and slurmctld ends the jobs in it as soon as it takes that; to lose none put the "
                  "line back with State=DRAIN until they have ended",
                  name);
  }
}

void availability_rules(const json::Value& object, const Known& known, Findings& findings) {
  if (!json::bool_at(object, {"spec", "ha", "enabled"})) return;
  const std::string_view claim = json::string_at(object, {"spec", "persistence", "existingClaim"});
  const auto found = known.claims.find(claim);
  if (found == known.claims.end() || !found->second.exists) return;
  if (!contains(found->second.access_modes, "ReadWriteMany")) {
    findings.fault("spec.persistence.existingClaim",
                   "claim {} can be written by one node only; all slurmctld of a cluster share it, so it needs "
                   "ReadWriteMany among its access modes",
                   claim);
  }
}

void persistence_rules(const json::Value& object, const json::Value& old, Findings& findings) {
  const bool before = json::bool_at(old, {"spec", "persistence", "enabled"}, true);
  const bool after = json::bool_at(object, {"spec", "persistence", "enabled"}, true);
  if (before != after) {
    findings.fault("spec.persistence.enabled",
                   "cannot be changed from {} to {}: Slurm's state would be lost; make a new "
                   "Controller",
                   before, after);
  }
  if (!after) return;
  const std::string_view old_claim = json::string_at(old, {"spec", "persistence", "existingClaim"});
  const std::string_view claim = json::string_at(object, {"spec", "persistence", "existingClaim"});
  if (old_claim != claim) {
    findings.fault("spec.persistence.existingClaim",
                   "cannot be changed from {} to {}: Slurm's state would stay behind; make a new Controller",
                   quoted(old_claim), quoted(claim));
  }
}

}  // namespace

std::set<std::string, std::less<>> file_maps(const json::Value& controller) {
  std::set<std::string, std::less<>> names;
  for (const FileList& list : kFileLists) {
    for_each_ref(controller, list.field, [&](std::string_view map, const std::string&) {
      if (!map.empty()) names.emplace(map);
    });
  }
  return names;
}

void controller_rules(const json::Value& object, const json::Value* old, const Known& known, Findings& findings) {
  const bool external = json::bool_at(object, {"spec", "external"});
  if (old == nullptr && !external) name_rules(object, "NAME-controller", true, findings);
  cluster_name_rules(object, old, findings);
  external_rules(object, findings);
  service_rules(object, fmt::format("{}-controller", name_of(object)), findings);
  jwt_key_rules(object, old, findings);
  if (old != nullptr) {
    const std::string_view before = key_of(*old, "slurmKeyRef").name;
    const std::string_view after = key_of(object, "slurmKeyRef").name;
    if (before != after) {
      findings.fault("spec.slurmKeyRef.name",
                     "cannot be changed from {} to {}, since daemons with different keys do not talk to each other; to "
                     "rotate the key let the jobs end, then change the content of Secret {}; if it is immutable, make "
                     "it anew while no pod "
                     "mounts it",
                     quoted(before), quoted(after), quoted(before));
    }
    persistence_rules(object, *old, findings);
  }
  if (external) return;
  file_rules(object, known, findings);
  extra_conf_rules(object, findings);
  if (old != nullptr) partition_rules(object, *old, findings);
  availability_rules(object, known, findings);
}

}  // namespace bascule::op

// The bridge's configuration file, shared by its processes: slurm-bridge's keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"

namespace bascule::bridge {

struct LabelRequirement {
  std::string key;
  std::string op;  // In, NotIn, Exists, DoesNotExist
  std::vector<std::string> values;
};
// matchLabels and matchExpressions, all of which must hold; none: everything matches.
struct LabelSelector {
  std::vector<LabelRequirement> requirements;
};

struct Config {
  std::string scheduler_name = "slurm-bridge-scheduler";
  std::string slurm_rest_api;  // URL
  std::vector<std::string> managed_namespaces;
  std::optional<LabelSelector> managed_namespace_selector;  // when present the list is not looked at
  std::string mcs_label;
  std::string partition;
};

// A configuration that cannot be used: one sentence a fault, each naming file, key and what was expected.
struct ConfigFaults {
  std::vector<std::string> faults;
};

// Throws ConfigFaults. `name` is the file's name for the sentences; `need_slurm`: slurmRestApi must be there.
Config parse_config(std::string_view yaml, std::string_view name, bool need_slurm);
Config load_config(const std::string& path, bool need_slurm);

}  // namespace bascule::bridge

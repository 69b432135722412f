// The bridge's configuration file, shared by its processes: slurm-bridge's keys. Keys are matched without case, as
// slurm-bridge matches them; an unknown key is a fault, since a misspelt one would silently change where pods run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bridge/device_drivers.hpp"
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

// Who in Slurm the pods of some namespaces may be, and what they may ask for (identity.hpp). A namespace may end in
// '*'.
struct IdentityRule {
  std::vector<std::string> namespaces = {};
  std::vector<std::string> users = {}, groups = {}, accounts = {}, qos = {}, partitions = {}, wckeys = {};
  std::vector<std::string> reservations = {}, licenses = {};
  std::optional<std::uint32_t> max_priority = {};  // nullopt: no priority may be asked for
};

struct Config {
  std::string scheduler_name = "slurm-bridge-scheduler";
  std::string slurm_rest_api;  // URL
  std::vector<std::string> managed_namespaces;
  std::optional<LabelSelector> managed_namespace_selector;  // when present the list is not looked at
  std::string mcs_label;
  std::string partition;  // one, or several ("a,b") of which Slurm takes any
  // Who may change what the bridge keeps on pods (job id, node, state, finalizer), as users of the API server; a name
  // may end in '*'. Our own key: slurm-bridge ignores it.
  std::vector<std::string> trusted_users;
  std::vector<IdentityRule> identities;  // our own key, too
  DeviceDrivers device_drivers;          // and this
};

// The bridge's own service accounts when the file names no trustedUsers: those of its namespace that are called
// slurm-bridge-*, and the scheduler's, which bears the scheduler's name.
std::vector<std::string> default_trusted_users(std::string_view ns, std::string_view scheduler_name);

// A configuration that cannot be used: one sentence a fault, each naming file, key and what was expected.
struct ConfigFaults {
  std::vector<std::string> faults;
};

// Throws ConfigFaults with every fault of the file. An empty file is a configuration of defaults. `name` is the file's
// name for the sentences; `need_slurm`: slurmRestApi must be there.
Config parse_config(std::string_view yaml, std::string_view name, bool need_slurm);
Config load_config(const std::string& path, bool need_slurm);

// The known word most like `word`, without case, for "did you mean"; nullopt when none is near.
std::optional<std::string_view> nearest_word(std::string_view word, std::span<const std::string_view> known);

}  // namespace bascule::bridge

// The files of /etc/slurm that come from ConfigMaps of the user: which there are, what is wrong with them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/types.hpp"

namespace bascule::op {

struct ConfigMapContent {
  StringMap data;
  StringMap binary;  // base64, as the API has it
};

ConfigMapContent read_config_map(const json::Value& object);

// By name, of the Controller's namespace.
using ConfigMaps = std::map<std::string, ConfigMapContent>;

struct FilePlan {
  // File names in /etc/slurm, each once, sorted.
  std::vector<std::string> prolog;
  std::vector<std::string> epilog;
  std::vector<std::string> prolog_slurmctld;
  std::vector<std::string> epilog_slurmctld;
  // Names of the ConfigMaps that are there, each once, sorted: what is projected into /etc/slurm.
  std::vector<std::string> sources;
  bool own_cgroup_conf = false;      // a cgroup.conf among them takes the place of ours
  std::vector<std::string> missing;  // ConfigMaps that do not exist
  // Sentences: a file in two of them, a file that only the operator may write. With any of them the configuration
  // should stay as it is.
  std::vector<std::string> faults;
  // Changes whenever the content of any of them does.
  std::string hash;
};

// A file of /etc/slurm that the operator writes itself. `jwks`: spec.jwksKeyRef is set.
bool is_own_file(std::string_view file, bool jwks) noexcept;
// Every ConfigMap the Controller names, each once, sorted: what to read and to watch.
std::vector<std::string> referenced_config_maps(const Controller& controller);
FilePlan plan_files(const Controller& controller, const ConfigMaps& maps);

}  // namespace bascule::op

#include "operator/config/files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "operator/config/hash.hpp"

namespace bascule::op {

namespace {

constexpr std::string_view kOurs[] = {names::kSlurmConf, names::kSlurmdbdConf, names::kSlurmKeyFile,
                                      names::kJwtKeyFile};

StringMap texts_of(const json::Value& object, std::string_view field) {
  StringMap result;
  if (const json::Object* map = json::object_at(object, {field})) {
    for (const auto& [key, value] : *map) {
      if (value.is_string()) result.emplace(key, json::view(value.get_string()));
    }
  }
  return result;
}

void sort_unique(std::vector<std::string>& list) {
  std::ranges::sort(list);
  const auto tail = std::ranges::unique(list);
  list.erase(tail.begin(), tail.end());
}

std::vector<std::string> scripts(const std::vector<std::string>& refs, const ConfigMaps& maps) {
  std::vector<std::string> files;
  for (const std::string& ref : refs) {
    const auto map = maps.find(ref);
    if (map == maps.end()) continue;
    for (const auto& [file, text] : map->second.data) files.push_back(file);
  }
  sort_unique(files);
  return files;
}

}  // namespace

ConfigMapContent read_config_map(const json::Value& object) {
  return {texts_of(object, "data"), texts_of(object, "binaryData")};
}

bool is_own_file(std::string_view file, bool jwks) noexcept {
  return std::ranges::find(kOurs, file) != std::end(kOurs) || (jwks && file == names::kJwksFile);
}

std::vector<std::string> referenced_config_maps(const Controller& controller) {
  std::vector<std::string> all;
  for (const auto* refs : {&controller.config_files, &controller.prolog, &controller.epilog,
                           &controller.prolog_slurmctld, &controller.epilog_slurmctld}) {
    all.insert(all.end(), refs->begin(), refs->end());
  }
  sort_unique(all);
  return all;
}

FilePlan plan_files(const Controller& controller, const ConfigMaps& maps) {
  FilePlan plan;
  plan.prolog = scripts(controller.prolog, maps);
  plan.epilog = scripts(controller.epilog, maps);
  plan.prolog_slurmctld = scripts(controller.prolog_slurmctld, maps);
  plan.epilog_slurmctld = scripts(controller.epilog_slurmctld, maps);
  std::map<std::string, std::string> owner;  // file -> the first ConfigMap that has it
  Hasher hasher;
  for (const std::string& name : referenced_config_maps(controller)) {
    const auto map = maps.find(name);
    if (map == maps.end()) {
      plan.missing.push_back(name);
      continue;
    }
    plan.sources.push_back(name);
    for (const StringMap* files : {&map->second.data, &map->second.binary}) {
      for (const auto& [file, content] : *files) {
        hasher.add(file, content);
        if (is_own_file(file, !controller.keys.jwks.empty())) {
          plan.faults.push_back(
              fmt::format("ConfigMap {} has a {}, which the operator writes itself; use spec.extraConf", name, file));
        }
        const auto [first, added] = owner.emplace(file, name);
        if (!added) {
          plan.faults.push_back(
              fmt::format("ConfigMaps {} and {} both have a file {}; rename one of them", first->second, name, file));
        }
      }
    }
    const bool config = std::ranges::find(controller.config_files, name) != controller.config_files.end();
    plan.own_cgroup_conf |= config && map->second.data.contains(std::string(names::kCgroupConf));
  }
  plan.hash = hasher.hex();
  return plan;
}

}  // namespace bascule::op

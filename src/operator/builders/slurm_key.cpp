#include "operator/builders/slurm_key.hpp"

#include "operator/api/names.hpp"

namespace bascule::op {

namespace {

// Of a source of a projected volume; nullptr: the key is not of it.
const json::Value* key_item(const json::Value& source) {
  const json::Array* items = json::array_at(source, {"secret", "items"});
  if (!items) return nullptr;
  for (const json::Value& item : *items) {
    if (json::string_at(item, {"path"}) == names::kSlurmKeyFile) return &item;
  }
  return nullptr;
}

// Somebody said to take a changed key whatever runs.
bool key_is_ordered(const Controller& controller) {
  const auto order = controller.meta.annotations.find(std::string(names::kTakeSlurmKey));
  return order != controller.meta.annotations.end() && order->second == "true";
}

}  // namespace

std::string_view key_made_for(const json::Value* stateful_set) {
  if (!stateful_set || !json::find(*stateful_set, {"metadata", "annotations", names::kStamp})) return {};
  return json::string_at(*stateful_set, {"spec", "template", "metadata", "annotations", names::kSlurmKeyHash});
}

KeyRef key_mounted(const json::Value& stateful_set) {
  const json::Array* volumes = json::array_at(stateful_set, {"spec", "template", "spec", "volumes"});
  if (!volumes) return {};
  for (const json::Value& volume : *volumes) {
    const json::Array* sources = json::array_at(volume, {"projected", "sources"});
    if (!sources) continue;
    for (const json::Value& source : *sources) {
      if (const json::Value* item = key_item(source)) {
        return {std::string(json::string_at(source, {"secret", "name"})), std::string(json::string_at(*item, {"key"}))};
      }
    }
  }
  return {};
}

KeyInUse key_in_use(const Controller& controller, const json::Value* stateful_set, std::string_view hash) {
  const std::string_view of_slurmctld = key_made_for(stateful_set);
  KeyInUse key{controller.keys.slurm, std::string(hash)};
  if (controller.external || of_slurmctld.empty() || of_slurmctld == hash || key_is_ordered(controller)) return key;
  key.hash = of_slurmctld;
  if (KeyRef mounted = key_mounted(*stateful_set); !mounted.empty()) key.ref = std::move(mounted);
  return key;
}

}  // namespace bascule::op

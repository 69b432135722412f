#include "bridge/simulate_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/time.hpp"
#include "bridge/description.hpp"
#include "bridge/record.hpp"
#include "json/yaml.hpp"
#include "slurm/decode.hpp"

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxBytes = std::size_t{256} << 20;
constexpr std::string_view kKeys[] = {"time", "config", "cluster", "objects", "slurm"};
constexpr std::string_view kSlurmKeys[] = {"jobs", "nodes"};

json::Value parse(std::string_view text) {
  if (text.size() > kMaxBytes) throw StateFault("the state is larger than 256 MiB");
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  try {
    if (first != std::string_view::npos && text[first] == '{') return json::parse(text, {.bytes = kMaxBytes});
    return json::parse_yaml(text);
  } catch (const json::ParseError& error) {
    throw StateFault(std::string("the state is neither JSON nor YAML: ") + error.what());
  }
}

void check_keys(const json::Object& object, std::span<const std::string_view> known, const std::string& place) {
  for (const auto& [key, value] : object) {
    const std::string_view name = key;
    if (std::ranges::find(known, name) != known.end()) continue;
    std::string expected;
    for (const std::string_view word : known) expected.append(expected.empty() ? "" : ", ").append(word);
    throw StateFault(fmt::format("{}unknown key {}; expected are {}", place, in_quotes(name), expected));
  }
}

class Reader final {
 public:
  Reader(ClusterState& state, json::Interner& interner) : state_(state), interner_(interner) {}

  // An object, or a list of them; `place` for sentences.
  void take(const json::Value& value, const std::string& place, int depth = 0) {
    if (value.is_array()) return take_all(value.get_array(), place, depth);
    if (!value.is_object()) throw StateFault(place + " is no object of Kubernetes: expected kind and metadata");
    const std::string_view kind = json::string_at(value, {"kind"});
    if (kind.ends_with("List") && value.get_object().contains("items")) {
      const json::Array* items = json::array_at(value, {"items"});
      if (items != nullptr) take_items(*items, value, place + ".items", depth);
      return;
    }
    take_one(value, kind, place);
  }

 private:
  void take_all(const json::Array& list, const std::string& place, int depth) {
    if (depth > 3) throw StateFault(place + ": lists within lists within lists");
    for (std::size_t i = 0; i < list.size(); ++i) take(list[i], place + "[" + std::to_string(i) + "]", depth + 1);
  }

  // Items of a typed list (PodList) do not say what they are.
  void take_items(const json::Array& items, const json::Value& list, const std::string& place, int depth) {
    if (depth > 3) throw StateFault(place + ": lists within lists within lists");
    const std::string_view list_kind = json::string_at(list, {"kind"});
    const std::string_view kind = list_kind.substr(0, list_kind.size() - 4);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string here = place + "[" + std::to_string(i) + "]";
      if (kind.empty() || !items[i].is_object() || items[i].get_object().contains("kind")) {
        take(items[i], here, depth + 1);
        continue;
      }
      json::Value item = items[i];
      item.get_object()["kind"] = kind;
      item.get_object()["apiVersion"] = json::string_at(list, {"apiVersion"});
      take_one(item, kind, here);
    }
  }

  void take_one(const json::Value& value, std::string_view kind, const std::string& place) {
    const std::string_view name = json::string_at(value, {"metadata", "name"});
    if (kind.empty() || name.empty()) throw StateFault(place + " has no kind or no metadata.name");
    try {
      const bool core = json::string_at(value, {"apiVersion"}) == "v1";
      if (core && kind == "Pod") {
        state_.pods.push_back(kube::decode_pod(json::dump(value), interner_));
        need_uid(state_.pods.back()->meta.uid, place);
      } else if (core && kind == "Node") {
        state_.nodes.push_back(kube::decode_node(json::dump(value), interner_));
      } else if (!take_storage(value, kind) && !take_devices(value, kind)) {
        if (kind == "Job" && json::string_at(value, {"apiVersion"}) == "batch/v1") {
          // Read again as the scheduler reads it, where nobody could say what is wrong with it.
          (void)kube::decode_job(json::dump(value), interner_);
        }
        if (core && kind == "Namespace" && name == "kube-system" && state_.self.cluster.empty()) {
          state_.self.cluster = json::string_at(value, {"metadata", "uid"});
        }
        state_.objects.push_back(value);
      }
    } catch (const json::ShapeError& error) {
      fail(place, kind, name, error.what());
    } catch (const json::ParseError& error) {
      fail(place, kind, name, error.what());
    }
  }
  bool take_storage(const json::Value& value, std::string_view kind) {
    const bool core = json::string_at(value, {"apiVersion"}) == "v1";
    if (!core && json::string_at(value, {"apiVersion"}) != "storage.k8s.io/v1") return false;
    std::vector<ObjectPtr>* to = nullptr;
    if (core && kind == "PersistentVolumeClaim") to = &state_.claims;
    if (core && kind == "PersistentVolume") to = &state_.volumes;
    if (!core && kind == "StorageClass") to = &state_.classes;
    if (!core && kind == "CSINode") to = &state_.csi_nodes;
    if (!core && kind == "VolumeAttachment") to = &state_.attachments;
    if (to != nullptr) to->push_back(kube::decode_dynamic(json::dump(value), interner_));
    return to != nullptr;
  }
  bool take_devices(const json::Value& value, std::string_view kind) {
    if (json::string_at(value, {"apiVersion"}) != "resource.k8s.io/v1") return false;
    const std::string text = json::dump(value);
    if (kind == "ResourceSlice") {
      state_.slices.push_back(decode_slice(text, interner_));
    } else if (kind == "DeviceClass") {
      state_.device_classes.push_back(decode_class(text, interner_));
    } else if (kind == "ResourceClaim") {
      state_.device_claims.push_back(decode_claim(text, interner_));
    } else {
      return false;
    }
    return true;
  }
  // Everything is known by it.
  void need_uid(const Uid& uid, const std::string& place) {
    if (uid.empty()) throw StateFault(place + " is a Pod without metadata.uid");
    if (!uids_.insert(uid).second)
      throw StateFault(place + " is a Pod whose metadata.uid " + uid.str() + " came before");
  }
  [[noreturn]] static void fail(const std::string& place, std::string_view kind, std::string_view name,
                                const std::string& why) {
    throw StateFault(place + ", " + std::string(kind) + " " + in_quotes(name) + ": " + why);
  }

  ClusterState& state_;
  json::Interner& interner_;
  std::set<Uid> uids_;
};

// An answer of slurmrestd, or its list alone. `decode` is decode_jobs or decode_nodes.
template <class Decode>
auto read_answer(const json::Value& slurm, std::string_view key, Decode decode) {
  using List = decltype(decode(std::string_view()).list);
  const json::Value* found = json::find(slurm, {key});
  if (found == nullptr || found->is_null()) return List();
  json::Value answer = found->is_array() ? json::Value(json::Object{{key, *found}}) : *found;
  const std::string place = "slurm." + std::string(key);
  try {
    auto listed = decode(json::dump(answer));
    if (!listed.list) throw StateFault(place + ": expected slurmrestd's answer with its list " + in_quotes(key));
    return std::move(listed.list);
  } catch (const json::ShapeError& error) {
    throw StateFault(place + ": " + error.what());
  } catch (const json::ParseError& error) {
    throw StateFault(place + ": " + error.what());
  }
}

void read_slurm(const json::Value& slurm, ClusterState& state) {
  if (!slurm.is_object()) throw StateFault("slurm: expected an object with jobs and nodes");
  check_keys(slurm.get_object(), kSlurmKeys, "slurm: ");
  if (auto jobs = read_answer(slurm, "jobs", slurm::decode_jobs)) state.slurm_jobs = std::move(jobs->jobs);
  if (auto nodes = read_answer(slurm, "nodes", slurm::decode_nodes)) state.slurm_nodes = std::move(nodes->nodes);
}

// UIDs are unique: a record that names one of our pods by it was written in its cluster.
std::string cluster_by_records(const ClusterState& state) {
  std::set<Uid> uids;
  for (const PodPtr& pod : state.pods) uids.insert(pod->meta.uid);
  for (const slurm::Job& job : *state.slurm_jobs) {
    const auto record = parse_record(job.admin_comment);
    if (!record || record->bridge != state.self.bridge) continue;
    if (std::ranges::any_of(record->uids, [&uids](const Uid& uid) { return uids.contains(uid); })) {
      return record->cluster;
    }
  }
  return {};
}

}  // namespace

ClusterState read_state(std::string_view text, const StateDefaults& defaults, json::Interner& interner) {
  const json::Value value = parse(text);
  if (!value.is_object()) throw StateFault("the state is no object: expected objects and slurm");
  check_keys(value.get_object(), kKeys, "");
  ClusterState state;
  state.time = defaults.time;
  if (const std::string_view time = json::string_at(value, {"time"}); !time.empty()) {
    const auto parsed = parse_rfc3339(time);
    if (!parsed) throw StateFault("time: expected a time like 2026-01-31T12:00:00Z, not " + in_quotes(time));
    state.time = *parsed;
  }
  if (defaults.config) {
    state.config = *defaults.config;
  } else if (const json::Value* config = json::find(value, {"config"})) {
    state.config = parse_config(json::dump(*config), "config", false);
  }
  state.self = {state.config.scheduler_name, std::string(json::string_at(value, {"cluster"}))};
  if (const json::Value* objects = json::find(value, {"objects"})) Reader(state, interner).take(*objects, "objects");
  if (const json::Value* slurm = json::find(value, {"slurm"})) read_slurm(*slurm, state);
  if (state.self.cluster.empty() && state.slurm_jobs) state.self.cluster = cluster_by_records(state);
  return state;
}

}  // namespace bascule::bridge

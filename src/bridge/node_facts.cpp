#include "bridge/node_facts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bridge/names.hpp"
#include "bridge/record.hpp"
#include "json/value.hpp"

namespace bascule::bridge {

namespace {

// What follows our mark in a reason; slurm-bridge's own texts, and two more.
constexpr std::string_view kCorresponding = "corresponding Kubernetes node (";
constexpr std::string_view kRemoving = "removing external node ";
constexpr std::string_view kReshaping = "registering external node anew ";
constexpr std::string_view kOfCluster = " (cluster ";  // behind it, up to a bracket

std::string reason(std::string_view text) {
  return fmt::format("{} {}", names::kReasonMark, text);
}

// The text after our mark, which slurm-bridge sometimes writes twice; nullopt: not ours.
std::optional<std::string_view> after_mark(std::string_view text) {
  if (!text.starts_with(names::kReasonMark)) return std::nullopt;
  while (text.starts_with(names::kReasonMark)) {
    text.remove_prefix(names::kReasonMark.size());
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  return text;
}

// The cluster that a reason names; empty: none.
std::string_view cluster_in(std::string_view text) {
  const std::size_t at = text.find(kOfCluster);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + kOfCluster.size());
  return text.substr(0, text.find(')'));
}

// Letters, digits and a few marks: what goes into a slurm.conf line unquoted. Anything else could add keys of its own.
bool is_plain(std::string_view text, std::string_view marks) {
  return !text.empty() && text.size() <= 253 && std::ranges::all_of(text, [marks](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           marks.find(c) != std::string_view::npos;
  });
}

// Of what is there; less than nothing counts as nothing.
std::int64_t floor_of(const Quantity& quantity) {
  const std::int64_t up = std::max<std::int64_t>(quantity.ceil(), 0);
  return up > 0 && quantity < Quantity(up) ? up - 1 : up;
}

}  // namespace

bool is_plain_node_name(std::string_view text) {
  return is_plain(text, "-_.");
}
bool is_plain_feature(std::string_view text) {
  return is_plain(text, "-_.") && text != "ALL";
}
bool is_plain_topology(std::string_view text) {
  return is_plain(text, "-_.:,");
}
bool is_plain_address(std::string_view text) {
  return is_plain(text, ".:");
}

std::vector<std::string> items_of(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    while (!item.empty() && static_cast<unsigned char>(item.front()) <= ' ') item.remove_prefix(1);
    while (!item.empty() && static_cast<unsigned char>(item.back()) <= ' ') item.remove_suffix(1);
    if (!item.empty()) items.emplace_back(item);
  }
  std::ranges::sort(items);
  items.erase(std::unique(items.begin(), items.end()), items.end());
  return items;
}

std::string join_items(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ",") + item;
  return text;
}

std::string print_mark(const NodeMark& mark) {
  json::Object fields{{"bridge", mark.bridge}, {"cluster", mark.cluster}, {"topology", mark.topology}};
  if (!mark.devices.empty()) fields["devices"] = mark.devices;
  if (mark.cpu_devices) fields["cpuDevices"] = true;
  return json::dump(json::Object{{"bascule", std::move(fields)}});
}

std::optional<NodeMark> parse_mark(std::string_view extra) {
  if (!extra.starts_with('{')) return std::nullopt;
  try {
    const json::Value value = json::parse(extra, {.depth = 8, .bytes = std::size_t{64} << 10});
    if (json::object_at(value, {"bascule"}) == nullptr) return std::nullopt;
    NodeMark mark{std::string(json::string_at(value, {"bascule", "bridge"})),
                  std::string(json::string_at(value, {"bascule", "cluster"})),
                  std::string(json::string_at(value, {"bascule", "topology"})),
                  std::string(json::string_at(value, {"bascule", "devices"})),
                  json::bool_at(value, {"bascule", "cpuDevices"})};
    if (mark.bridge.empty() || mark.cluster.empty()) return std::nullopt;
    return mark;
  } catch (const json::ParseError&) {
    return std::nullopt;
  }
}

NodeShape shape_of(const kube::Node& node, const NodeDevices& devices) {
  const std::int64_t cpus = floor_of(kube::amount(node.allocatable, "cpu"));
  const std::int64_t bytes = floor_of(kube::amount(node.allocatable, "memory"));
  NodeShape shape{static_cast<std::uint32_t>(std::min<std::int64_t>(cpus, 65'533)),
                  static_cast<std::uint64_t>(bytes) >> 20};
  shape.cores = shape.cpus;
  if (devices.cpus.count() > 0) {
    // Cores must mean the same on both sides, so none is left out for what kubelet keeps to itself.
    shape.cpu_devices = true;
    shape.cpus = devices.cpus.count();
    shape.sockets = devices.cpus.sockets;
    shape.cores = devices.cpus.cores;
    shape.threads = devices.cpus.threads;
  }
  shape.gres = gres_of(devices);
  shape.gres_conf = gres_conf_of(devices);
  return shape;
}

std::string uncounted_gpus(const kube::Node& node, const NodeDevices& devices) {
  std::string all;
  if (!devices.unknown.empty() || !devices.gpus.empty()) return all;
  for (const std::string_view name : names::kGpuResources) {
    const std::int64_t count = floor_of(kube::amount(node.allocatable, name));
    if (count > 0) all += fmt::format("{}{} {}", all.empty() ? "" : ", ", count, name);
  }
  return all;
}

std::string node_line(std::string_view slurm_name, const kube::Node& node, const NodeShape& shape,
                      const std::vector<std::string>& features, std::string_view topology) {
  std::string line = fmt::format(
      "NodeName={} NodeAddr={} Sockets={} CoresPerSocket={} ThreadsPerCore={} CPUs={} RealMemory={} State=EXTERNAL",
      slurm_name, node.internal_ip, shape.sockets, shape.cores, shape.threads, shape.cpus, shape.memory);
  if (!features.empty()) line += " Feature=" + join_items(features);
  if (!topology.empty()) line += fmt::format(" Topology={}", topology);
  if (!shape.gres.empty()) line += fmt::format(" Gres={} GresConf=\"{}\"", shape.gres, shape.gres_conf);
  return line;
}

std::string device_mark(const NodeShape& shape) {
  return shape.gres_conf.empty() ? std::string() : fingerprint(shape.gres_conf);
}

std::string slurm_name_of(const kube::Node& node) {
  const auto* name = kube::find(node.meta.labels, names::kSlurmNodeName);
  return name == nullptr ? node.meta.key.name : name->str();
}

const kube::Taint* managed_taint(const kube::Node& node) {
  const auto found = std::ranges::find_if(node.taints, [](const kube::Taint& taint) {
    return taint.key == names::kManagedNodeTaint && taint.effect == "NoExecute";
  });
  return found == node.taints.end() ? nullptr : &*found;
}

bool is_down_alive(const slurm::Node& node) {
  using Flag = slurm::NodeFlag;
  constexpr Flag kOtherwise[] = {Flag::kNotResponding, Flag::kInvalidReg,   Flag::kFail,      Flag::kRebooting,
                                 Flag::kPoweredDown,   Flag::kPoweringDown, Flag::kPoweringUp};
  return node.states.base == slurm::NodeState::kDown &&
         std::ranges::none_of(kOtherwise, [&node](Flag flag) { return node.states.has(flag); });
}

std::vector<std::string> partitions_of(const kube::Node& node) {
  return items_of(kube::value_or(node.meta.annotations, names::kExternalNodePartitions));
}

std::string normal_topology(std::string_view text) {
  return join_items(items_of(text));
}

std::string reason_of_cluster(std::string reason, std::string_view cluster) {
  return fmt::format("{}{}{})", reason, kOfCluster, cluster);
}

bool is_our_reason(std::string_view text, std::string_view cluster) {
  const auto rest = after_mark(text);
  if (!rest) return false;
  const std::string_view named = cluster_in(*rest);
  if (!named.empty() && named != cluster) return false;
  return rest->starts_with(kCorresponding) || rest->starts_with(kRemoving) || rest->starts_with(kReshaping);
}

bool is_reason_of_cluster(std::string_view text, std::string_view cluster) {
  return is_our_reason(text, cluster) && cluster_in(text) == cluster;
}

bool is_schedulable_reason(std::string_view text) {
  const auto rest = after_mark(text);
  return rest && rest->starts_with(kCorresponding) && rest->contains(") is schedulable");
}

bool is_behind_schedulable(std::string_view text) {
  constexpr std::string_view kIs = ") is schedulable", kAway = " : Not responding";
  const std::size_t at = is_schedulable_reason(text) ? text.find(kIs) : std::string_view::npos;
  if (at == std::string_view::npos) return false;
  text.remove_prefix(at + kIs.size());
  if (text.starts_with(kOfCluster)) text.remove_prefix(std::min(text.find(')') + 1, text.size()));
  while (text.starts_with(kAway)) text.remove_prefix(kAway.size());
  return !text.empty();
}

bool is_reshape_reason(std::string_view text) {
  const auto rest = after_mark(text);
  return rest && rest->starts_with(kReshaping);
}

std::string cordon_reason(std::string_view kube_name) {
  return reason(fmt::format("{}{}) is unschedulable", kCorresponding, kube_name));
}
std::string lost_reason(std::string_view kube_name) {
  return reason(fmt::format("{}{}) is not ready", kCorresponding, kube_name));
}
std::string adrift_reason(std::string_view kube_name, const NamespacedName& pod, std::string_view job) {
  return reason(fmt::format("{}{}) has pod {} of the unknown job {}", kCorresponding, kube_name, pod.str(), job));
}
std::string stranded_reason(std::string_view kube_name) {
  return reason(fmt::format("{}{}) is allocated to no job", kCorresponding, kube_name));
}
std::string schedulable_reason(std::string_view kube_name) {
  return reason(fmt::format("{}{}) is schedulable", kCorresponding, kube_name));
}
std::string removal_reason(std::string_view slurm_name) {
  return reason(fmt::format("{}{}", kRemoving, slurm_name));
}
std::string reshape_reason(std::string_view slurm_name, const NodeShape& shape, std::string_view address) {
  return reason(fmt::format("{}{}: {} CPUs, {} MiB{} at {}", kReshaping, slurm_name, shape.cpus, shape.memory,
                            shape.gres.empty() ? "" : ", " + shape.gres, address));
}

bool is_removal_reason(std::string_view text) {
  const auto rest = after_mark(text);
  return rest && rest->starts_with(kRemoving);
}

}  // namespace bascule::bridge

#include "operator/builders/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/quantity.hpp"
#include "operator/api/derived.hpp"
#include "operator/builders/overlay.hpp"
#include "operator/builders/pod.hpp"
#include "operator/builders/scripts.hpp"
#include "operator/config/hash.hpp"
#include "operator/config/node_conf.hpp"
#include "operator/config/ssh_conf.hpp"

namespace bascule::op {

namespace {

constexpr names::App kApp = names::kSlurmd;
constexpr std::int64_t kFileMode = 0600;
// With the container its jobs end. A slurmd that is started again finds them, until Slurm itself gives the node up
// after SlurmdTimeout, 300 s by default: six minutes.
constexpr int kLivenessFailures = 36;
// More than there ever are. With maxUnavailable 0 Kubernetes counts against `replicas` of the NodeSet, which says less
// than there are while it is scaled in, and nothing in DaemonSet mode.
constexpr std::int64_t kAllOfThem = std::numeric_limits<std::int32_t>::max();

// A limit of the slurmd container, else of the pod; nullopt: none, or zero. A quantity may be written as a number.
std::optional<Quantity> limit(const NodeSet& set, std::string_view resource) {
  const json::Value* places[] = {json::find(set.slurmd, {"resources", "limits", resource}),
                                 json::find(set.pod_template.spec, {"resources", "limits", resource})};
  for (const json::Value* place : places) {
    if (!place) continue;
    const std::string text = place->is_string() ? std::string(json::view(place->get_string())) : json::dump(*place);
    const std::optional<Quantity> quantity = Quantity::parse(text);
    if (quantity && !quantity->zero()) return quantity;
  }
  return std::nullopt;
}

json::Object environment(std::string_view name, const std::string& value) {
  return {{"name", name}, {"value", value}};
}

json::Array worker_environment(const NodeSet& set) {
  constexpr int kMebibyteShift = 20;
  const std::optional<Quantity> cpu = limit(set, "cpu");
  const std::optional<Quantity> memory = limit(set, "memory");
  const std::string annotation = fmt::format("metadata.annotations['{}']", names::kTopologySpec);
  return {json::Object{{"name", kTopologyVariable},
                       {"valueFrom", json::Object{{"fieldRef", json::Object{{"fieldPath", annotation}}}}}},
          environment("POD_CPUS", fmt::to_string(cpu ? cpu->ceil() : 0)),
          environment("POD_MEMORY", fmt::to_string(memory ? memory->ceil() >> kMebibyteShift : 0))};
}

json::Value slurmd(const WorkerInput& input) {
  const NodeSet& set = input.set;
  json::Array ports = container_port(kApp.name, names::kSlurmdPort);
  std::vector<Mount> paths{{names::kSlurmEtcVolume, std::string(names::kSlurmEtc), true},
                           {names::kLogVolume, std::string(names::kLogDir)}};
  if (set.ssh.enabled) {
    ports.push_back(json::Object{{"name", "ssh"}, {"containerPort", names::kSshPort}, {"protocol", "TCP"}});
    paths.push_back({names::kSshConfigVolume, "/etc/ssh/sshd_config", true, names::kSshdConfig});
    paths.push_back({names::kSssdConfVolume, "/etc/sssd/sssd.conf", true, names::kSssdConf});
  }
  json::Value container = overlay_container(
      json::Object{
          {"name", kApp.name},
          {"args",
           json::Array{"-Z", "--conf-server", conf_server(input.controller), "--conf", node_conf(set).argument}},
          {"env", worker_environment(set)},
          {"ports", std::move(ports)},
          {"startupProbe", patient(http_probe("/livez", kApp.name))},
          {"livenessProbe", patient(http_probe("/livez", kApp.name), kLivenessFailures)},
          {"readinessProbe", http_probe("/readyz", kApp.name)},
          {"lifecycle",
           json::Object{
               {"preStop",
                json::Object{{"exec", json::Object{{"command", json::Array{"sh", "-c", scripts::kWorkerPreStop}}}}}}}},
          {"securityContext",
           json::Object{
               {"privileged", true},
               {"capabilities", json::Object{{"add", json::Array{"BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"}}}}}},
          {"volumeMounts", mounts(paths)}},
      set.slurmd, subject(set), "spec.slurmd");
  ensure_image(container, {}, subject(set), "spec.slurmd");
  return container;
}

json::Array worker_volumes(const WorkerInput& input) {
  const NodeSet& set = input.set;
  json::Array volumes{Projection()
                          .secret_key(input.controller.keys.slurm, names::kSlurmKeyFile)
                          .volume(names::kSlurmEtcVolume, kFileMode),
                      memory_volume(names::kLogVolume)};
  if (set.ssh.enabled) {
    volumes.push_back(
        Projection()
            .config_map(names::ssh_config(set.meta.name), {{names::kSshdConfig, names::kSshdConfig, kFileMode}})
            .volume(names::kSshConfigVolume, kFileMode));
    volumes.push_back(
        Projection().secret_key(set.ssh.sssd, names::kSssdConf, kFileMode).volume(names::kSssdConfVolume, kFileMode));
  }
  return volumes;
}

std::string workers_domain(const WorkerInput& input) {
  return fmt::format("{}.{}.svc.{}", names::workers(input.controller.meta.name), input.set.meta.ns, input.domain);
}

json::Value pod_spec(const WorkerInput& input) {
  const NodeSet& set = input.set;
  json::Value daemon = slurmd(input);
  const std::string image(json::string_at(daemon, {"image"}));
  json::Value spec = overlay_pod_spec(
      json::Object{
          {"automountServiceAccountToken", false},
          {"enableServiceLinks", false},
          {"subdomain", names::workers(input.controller.meta.name)},
          {"dnsConfig", json::Object{{"searches", json::Array{workers_domain(input)}}}},
          {"tolerations",
           json::Array{json::Object{{"key", names::kWorkerTaint}, {"operator", "Equal"}, {"effect", "NoExecute"}}}},
          {"initContainers", json::Array{logfile_sidecar(set.logfile, fmt::format("{}/slurmd.log", names::kLogDir),
                                                         image, subject(set))}},
          {"containers", json::Array{std::move(daemon)}},
          {"volumes", worker_volumes(input)}},
      set.pod_template.spec, subject(set));
  // Which node it gets is the scheduler's decision, by priority like anyone's.
  spec.get_object().stable_erase("nodeName");
  if (!set.oversubscribe_node) {
    require_apart(
        spec,
        {{"matchExpressions",
          json::Array{json::Object{{"key", names::kAppName}, {"operator", "In"}, {"values", json::Array{kApp.name}}}}}},
        subject(set));
  }
  return spec;
}

StringMap worker_labels(const WorkerInput& input) {
  StringMap labels = child_labels(kApp, input.set.meta.name);
  labels.emplace(names::kCluster, input.controller.meta.name);
  return labels;
}

// `own`: the NodeSet's metadata that goes on to its pods.
json::Object pod_metadata(const WorkerInput& input, const Meta& own) {
  const NodeSet& set = input.set;
  const ChildMeta meta = child_meta({subject(set).kind, own}, set.meta.name, set.pod_template.labels,
                                    set.pod_template.annotations, worker_labels(input));
  StringMap hashes{{std::string(names::kSlurmKeyHash), input.slurm_key_hash},
                   {std::string(names::kDefaultContainer), std::string(kApp.name)}};
  if (set.ssh.enabled) {
    hashes.emplace(names::kSshdConfHash, sha256_hex(worker_sshd_config(set.ssh.extra_sshd_config)));
    hashes.emplace(names::kSssdConfHash, input.sssd_hash);
  }
  return template_metadata(meta.labels, merged({&meta.annotations, &hashes}));
}

// Narrows every term, so that what the user requires still holds: terms are alternatives.
void require_node(json::Value& spec, const std::string& node, const Subject& subject) try {
  const json::Object field{{"key", "metadata.name"}, {"operator", "In"}, {"values", json::Array{node}}};
  json::Value& terms = json::at_or_create(
      spec, {"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  if (!terms.is_array() || terms.get_array().empty()) terms = json::Array{json::Object{}};
  for (json::Value& term : terms.get_array()) {
    json::Value& fields = json::at_or_create(term, {"matchFields"});
    if (!fields.is_array()) fields = json::Array{};
    fields.get_array().push_back(field);
  }
} catch (const json::ShapeError& error) {
  subject.fault("spec.template.spec", error.what());
}

// As Kubernetes gives to pods of a DaemonSet: they stay on a node that is cordoned, not ready or under pressure.
void tolerate_as_daemon(json::Value& spec) {
  const std::pair<const char*, const char*> taints[] = {
      {"node.kubernetes.io/not-ready", "NoExecute"},      {"node.kubernetes.io/unreachable", "NoExecute"},
      {"node.kubernetes.io/disk-pressure", "NoSchedule"}, {"node.kubernetes.io/memory-pressure", "NoSchedule"},
      {"node.kubernetes.io/pid-pressure", "NoSchedule"},  {"node.kubernetes.io/unschedulable", "NoSchedule"}};
  json::Array& list = json::at_or_create(spec, {"tolerations"}).get_array();
  const auto add = [&list](const char* key, const char* effect) {
    list.push_back(json::Object{{"key", key}, {"operator", "Exists"}, {"effect", effect}});
  };
  for (const auto& [key, effect] : taints) add(key, effect);
  if (json::bool_at(spec, {"hostNetwork"})) add("node.kubernetes.io/network-unavailable", "NoSchedule");
}

// On the host's network the hostname is the host's, whatever the pod's is, and a dynamic slurmd calls itself by it
// (slurmd(8), -Z and -N): by its full name, or one that Kubernetes does not know.
void name_slurmd(json::Value& spec, const NodeSet& set, const std::string& hostname) {
  constexpr std::string_view kVariable = "POD_SLURM_NODE";
  if (!json::bool_at(spec, {"hostNetwork"})) return;
  json::Object variable{{"name", kVariable}};
  if (set.scaling_mode == ScalingMode::kDaemonSet) {
    variable["value"] = hostname;
  } else {
    variable["valueFrom"] = json::Object{{"fieldRef", json::Object{{"fieldPath", "spec.nodeName"}}}};
  }
  for (json::Value& container : json::at_or_create(spec, {"containers"}).get_array()) {
    if (json::string_at(container, {"name"}) != kApp.name) continue;
    json::Array& args = json::at_or_create(container, {"args"}).get_array();
    if (std::ranges::find(args, json::Value("-N")) != args.end()) return;
    args.push_back("-N");
    args.push_back(json::Value(fmt::format("$({})", kVariable)));
    json::at_or_create(container, {"env"}).get_array().push_back(std::move(variable));
    return;
  }
}

void mount_claims(json::Value& spec, const NodeSet& set, std::string_view suffix) {
  json::Array& volumes = json::at_or_create(spec, {"volumes"}).get_array();
  for (const json::Value& claim : set.volume_claim_templates) {
    const std::string name(json::string_at(claim, {"metadata", "name"}));
    const auto same = [&](const json::Value& volume) { return json::string_at(volume, {"name"}) == name; };
    volumes.erase(std::remove_if(volumes.begin(), volumes.end(), same), volumes.end());
    volumes.push_back(claim_volume(name, worker_claim_name(set, name, suffix)));
  }
}

// metadata of what many NodeSets own.
json::Object shared_metadata(std::string name, std::span<const NodeSet> owners) {
  std::vector<const NodeSet*> sorted;
  for (const NodeSet& set : owners) sorted.push_back(&set);
  std::ranges::sort(sorted, {}, [](const NodeSet* set) { return std::string_view(set->meta.name); });
  json::Array references;
  for (const NodeSet* set : sorted) references.push_back(owner_reference(subject(*set), false));
  return {{"name", name},
          {"namespace", sorted.empty() ? std::string() : sorted.front()->meta.ns},
          {"ownerReferences", std::move(references)}};
}

}  // namespace

json::Value worker_template(const WorkerInput& input) {
  return json::Object{{"metadata", pod_metadata(input, input.set.meta)}, {"spec", pod_spec(input)}};
}

json::Value worker_revision(const WorkerInput& input, json::Value made) {
  made.get_object()["metadata"] = pod_metadata(input, {});
  return made;
}

json::Value worker_pod(const WorkerInput& input, const WorkerIdentity& identity) {
  const NodeSet& set = input.set;
  const json::Value pod = worker_template(input);
  json::Value spec = *json::find(pod, {"spec"});
  json::Object metadata = *json::object_at(pod, {"metadata"});
  json::Object& labels = metadata["labels"].get_object();
  labels[names::kPodName] = identity.name;
  labels[names::kPodHostname] = identity.hostname;
  labels[names::kScalingMode] = to_string(set.scaling_mode);
  if (!identity.index.empty()) labels[names::kPodIndex] = identity.index;
  if (!identity.revision.empty()) labels[names::kRevisionHash] = identity.revision;
  if (!identity.topology.empty()) metadata["annotations"].get_object()[names::kTopologySpec] = identity.topology;
  metadata["namespace"] = set.meta.ns;
  if (identity.name.empty()) {
    metadata["generateName"] = set.meta.name + "-";
  } else {
    metadata["name"] = identity.name;
  }
  metadata["ownerReferences"] = json::Array{owner_reference(subject(set))};
  spec.get_object()["hostname"] = identity.hostname;
  if (!identity.node.empty()) require_node(spec, identity.node, subject(set));
  if (set.scaling_mode == ScalingMode::kDaemonSet) tolerate_as_daemon(spec);
  name_slurmd(spec, set, identity.hostname);
  mount_claims(spec, set, identity.index.empty() ? identity.hostname : identity.index);
  return json::Object{
      {"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", std::move(metadata)}, {"spec", std::move(spec)}};
}

std::string padded(const NodeSet& set, std::int64_t ordinal) {
  return fmt::format("{:0{}}", ordinal, std::max<std::int64_t>(set.ordinal_padding, 1));
}

std::string worker_name(const NodeSet& set, std::int64_t ordinal) {
  return fmt::format("{}-{}", set.meta.name, padded(set, ordinal));
}

std::string worker_hostname(const NodeSet& set, std::int64_t ordinal) {
  const std::string_view prefix = set.pod_template.text("hostname");
  if (prefix.find_first_not_of(" \t\r\n") == std::string_view::npos) return worker_name(set, ordinal);
  return fmt::format("{}{}", prefix, padded(set, ordinal));
}

std::string worker_claim_name(const NodeSet& set, std::string_view claim_template, std::string_view suffix) {
  return fmt::format("{}-{}-{}", claim_template, set.meta.name, suffix);
}

std::vector<json::Value> worker_claims(const NodeSet& set, std::string_view suffix) {
  std::vector<json::Value> claims;
  for (const json::Value& claim_template : set.volume_claim_templates) {
    if (!claim_template.is_object()) {
      subject(set).fault("spec.volumeClaimTemplates", "has an item that is no object; write a PersistentVolumeClaim");
    }
    json::Value claim = claim_template;
    const std::string name(json::string_at(claim, {"metadata", "name"}));
    if (name.empty()) subject(set).fault("spec.volumeClaimTemplates", "has an item without metadata.name; name it");
    claim.get_object().stable_erase("status");
    claim.get_object()["apiVersion"] = "v1";
    claim.get_object()["kind"] = "PersistentVolumeClaim";
    json::at_or_create(claim, {"metadata", "name"}) = worker_claim_name(set, name, suffix);
    json::at_or_create(claim, {"metadata", "namespace"}) = set.meta.ns;
    for (const auto& [key, value] : selector_labels(kApp, set.meta.name)) {
      json::at_or_create(claim, {"metadata", "labels", key}) = value;
    }
    claims.push_back(std::move(claim));
  }
  return claims;
}

json::Value worker_ssh_config(const NodeSet& set) {
  const Subject owner = subject(set);
  StringMap labels = child_labels(kApp, set.meta.name);
  labels.emplace(names::kCluster, set.controller);
  return config_map(owner, child_meta(owner, names::ssh_config(set.meta.name), {}, {}, labels),
                    {{std::string(names::kSshdConfig), worker_sshd_config(set.ssh.extra_sshd_config)}});
}

json::Value workers_service(std::string_view controller, std::span<const NodeSet> owners) {
  return json::Object{
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", shared_metadata(names::workers(controller), owners)},
      {"spec", json::Object{{"clusterIP", "None"},
                            {"publishNotReadyAddresses", true},
                            {"selector", json::Object{{names::kAppName, kApp.name}, {names::kCluster, controller}}},
                            {"ports", json::Array{json::Object{{"name", kApp.name},
                                                               {"port", names::kSlurmdPort},
                                                               {"targetPort", kApp.name},
                                                               {"protocol", "TCP"}}}}}}};
}

json::Value workers_budget(std::string_view controller, std::span<const NodeSet> owners) {
  return json::Object{
      {"apiVersion", "policy/v1"},
      {"kind", "PodDisruptionBudget"},
      {"metadata", shared_metadata(names::workers_budget(controller), owners)},
      {"spec", json::Object{{"minAvailable", kAllOfThem},
                            {"selector", json::Object{{"matchLabels", json::Object{{names::kPodProtect, "true"},
                                                                                   {names::kCluster, controller}}}}}}}};
}

}  // namespace bascule::op

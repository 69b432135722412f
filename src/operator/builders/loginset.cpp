#include "operator/builders/loginset.hpp"

#include <fmt/format.h>

#include <utility>

#include "operator/api/derived.hpp"
#include "operator/builders/overlay.hpp"
#include "operator/builders/pod.hpp"
#include "operator/builders/scripts.hpp"
#include "operator/builders/ssh_keys.hpp"
#include "operator/config/hash.hpp"
#include "operator/config/ssh_conf.hpp"

namespace bascule::op {

namespace {

constexpr names::App kApp = names::kLogin;
constexpr std::int64_t kSecretMode = 0600;
constexpr std::int64_t kPublicMode = 0644;

StringMap ssh_files(const LoginSet& set) {
  return {{std::string(names::kSshdConfig), login_sshd_config(set.extra_sshd_config)},
          {std::string(names::kAuthorizedKeys), authorized_keys(set.root_authorized_keys)}};
}

// On the host's network sshd must be able to move: the user's port of that name counts.
std::int64_t ssh_port(const LoginSet& set) {
  if (const json::Array* ports = json::array_at(set.login, {"ports"})) {
    for (const json::Value& port : *ports) {
      if (json::string_at(port, {"name"}) != kApp.name) continue;
      if (const auto number = json::int_at(port, {"containerPort"})) return *number;
    }
  }
  return names::kSshPort;
}

json::Value login(const LoginInput& input) {
  const LoginSet& set = input.set;
  std::vector<Mount> paths{{names::kSlurmEtcVolume, std::string(names::kSlurmEtc), true},
                           {names::kSackdVolume, std::string(names::kSackdDir)},
                           {names::kSshConfigVolume, "/etc/ssh/sshd_config", true, names::kSshdConfig},
                           {names::kSshConfigVolume, "/root/.ssh/authorized_keys", true, names::kAuthorizedKeys},
                           {names::kSssdConfVolume, "/etc/sssd/sssd.conf", true, names::kSssdConf}};
  for (const std::string_view file : kHostKeyFiles) {
    paths.push_back({names::kSshHostKeysVolume, fmt::format("/etc/ssh/{}", file), true, file});
  }
  const std::string options = fmt::format("--conf-server {}", conf_server(input.controller));
  const std::string socket = fmt::format("{}/sack.socket", names::kSackdDir);
  json::Value container = overlay_container(
      json::Object{
          {"name", kApp.name},
          {"env", json::Array{json::Object{{"name", "SACKD_OPTIONS"}, {"value", options}}}},
          {"ports", container_port(kApp.name, ssh_port(set))},
          {"readinessProbe", json::Object{{"exec", json::Object{{"command", json::Array{"test", "-S", socket}}}}}},
          {"volumeMounts", mounts(paths)}},
      set.login, subject(set), "spec.login");
  ensure_image(container, {}, subject(set), "spec.login");
  return container;
}

json::Value initconf(const LoginSet& set, std::string_view image) {
  json::Value container = overlay_container(
      json::Object{{"name", "initconf"},
                   {"command", json::Array{"sh", "-c", scripts::kInitConf}},
                   {"env", json::Array{json::Object{{"name", "SLURM_USER"}, {"value", names::kSlurmUser}}}},
                   {"volumeMounts", mounts({{names::kSlurmEtcVolume, "/mnt/etc/slurm"},
                                            {names::kSlurmConfigVolume, "/mnt/slurm", true}})}},
      set.initconf, subject(set), "spec.initconf");
  ensure_image(container, image, subject(set), "spec.initconf");
  return container;
}

json::Array volumes(const LoginInput& input) {
  const LoginSet& set = input.set;
  std::vector<Projection::File> host_keys;
  for (const std::string_view file : kHostKeyFiles) {
    host_keys.push_back({file, file, file.ends_with(".pub") ? kPublicMode : kSecretMode});
  }
  return {
      memory_volume(names::kSlurmEtcVolume),
      memory_volume(names::kSackdVolume),
      Projection()
          .secret_key(input.controller.keys.slurm, names::kSlurmKeyFile)
          .volume(names::kSlurmConfigVolume, kSecretMode),
      Projection()
          .secret(names::ssh_host_keys(set.meta.name), host_keys)
          .volume(names::kSshHostKeysVolume, kSecretMode),
      Projection()
          .config_map(names::ssh_config(set.meta.name), {{names::kSshdConfig, names::kSshdConfig, kSecretMode},
                                                         {names::kAuthorizedKeys, names::kAuthorizedKeys, kSecretMode}})
          .volume(names::kSshConfigVolume, kSecretMode),
      Projection().secret_key(set.sssd, names::kSssdConf, kSecretMode).volume(names::kSssdConfVolume, kSecretMode)};
}

json::Value pod_spec(const LoginInput& input) {
  const LoginSet& set = input.set;
  json::Value container = login(input);
  json::Value init = initconf(set, json::string_at(container, {"image"}));
  const std::string search =
      fmt::format("{}.{}.svc.{}", names::workers(input.controller.meta.name), set.meta.ns, input.domain);
  return overlay_pod_spec(json::Object{{"automountServiceAccountToken", false},
                                       {"enableServiceLinks", false},
                                       {"dnsConfig", json::Object{{"searches", json::Array{search}}}},
                                       {"initContainers", json::Array{std::move(init)}},
                                       {"containers", json::Array{std::move(container)}},
                                       {"volumes", volumes(input)}},
                          set.pod_template.spec, subject(set));
}

// Whole, as the API server would complete it: what it puts in itself is nobody's and cannot be taken away again, and
// with it type Recreate is refused.
json::Value strategy(const LoginSet& set) {
  constexpr std::string_view kRolling = "RollingUpdate";
  json::Value out = set.strategy;
  if (json::string_at(out, {"type"}).empty()) out.get_object()["type"] = kRolling;
  if (json::string_at(out, {"type"}) != kRolling) return out;
  for (const std::string_view field : {"maxSurge", "maxUnavailable"}) {
    json::Value& limit = json::at_or_create(out, {"rollingUpdate", field});
    if (limit.is_null()) limit = "25%";
  }
  return out;
}

}  // namespace

json::Value login_service(const LoginSet& set) {
  const Subject owner = subject(set);
  const std::string& name = set.meta.name;
  return service(
      owner, {.meta = child_meta(owner, name, set.service.labels, set.service.annotations, child_labels(kApp, name)),
              .user_spec = set.service.spec,
              .selector = selector_labels(kApp, name),
              .port_name = kApp.name,
              .port = set.service.port != 0 ? set.service.port : names::kSshPort,
              .node_port = set.service.node_port});
}

json::Value login_ssh_config(const LoginSet& set) {
  const Subject owner = subject(set);
  return config_map(owner,
                    child_meta(owner, names::ssh_config(set.meta.name), {}, {}, child_labels(kApp, set.meta.name)),
                    ssh_files(set));
}

json::Value login_host_keys(const LoginSet& set, const StringMap& keys) {
  const Subject owner = subject(set);
  return secret(owner,
                child_meta(owner, names::ssh_host_keys(set.meta.name), {}, {}, child_labels(kApp, set.meta.name)), keys,
                true);
}

json::Value login_deployment(const LoginInput& input) {
  const LoginSet& set = input.set;
  const Subject owner = subject(set);
  const std::string& name = set.meta.name;
  const auto meta_of = [&](const Subject& subject) {
    return child_meta(subject, name, set.pod_template.labels, set.pod_template.annotations, child_labels(kApp, name));
  };
  // A roll ends sessions: what is said of the LoginSet alone is not worth one.
  const Meta nothing;
  const ChildMeta of_pods = meta_of({owner.kind, nothing});
  // All of ssh's files: those mounted one by one never change in a running pod.
  const StringMap hashes{{std::string(names::kSlurmKeyHash), input.slurm_key_hash},
                         {std::string(names::kSshdConfHash), hash_of(ssh_files(set))},
                         {std::string(names::kSssdConfHash), input.sssd_hash},
                         {std::string(names::kSshHostKeysHash), input.host_keys_hash},
                         {std::string(names::kDefaultContainer), std::string(kApp.name)}};
  json::Object spec{
      {"replicas", set.replicas},
      {"revisionHistoryLimit", 0},
      {"selector", json::Object{{"matchLabels", to_json(selector_labels(kApp, name))}}},
      {"strategy", strategy(set)},
      {"template",
       json::Object{{"metadata", template_metadata(of_pods.labels, merged({&of_pods.annotations, &hashes}))},
                    {"spec", pod_spec(input)}}}};
  return json::Object{{"apiVersion", "apps/v1"},
                      {"kind", "Deployment"},
                      {"metadata", child_metadata(owner, meta_of(owner))},
                      {"spec", std::move(spec)}};
}

}  // namespace bascule::op

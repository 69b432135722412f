#include "operator/builders/accounting.hpp"

#include <utility>

#include "operator/api/derived.hpp"
#include "operator/builders/overlay.hpp"
#include "operator/builders/pod.hpp"
#include "operator/config/hash.hpp"

namespace bascule::op {

namespace {

constexpr names::App kApp = names::kSlurmdbd;

json::Object etc_volume(const Accounting& accounting) {
  constexpr std::int64_t kMode = 0600;
  Projection etc;
  etc.secret(names::accounting(accounting.meta.name), {{names::kSlurmdbdConf, names::kSlurmdbdConf}})
      .secret_key(accounting.keys.slurm, names::kSlurmKeyFile)
      .secret_key(accounting.keys.jwt, names::kJwtKeyFile);
  if (!accounting.keys.jwks.empty()) {
    etc.config_map(accounting.keys.jwks.name, {{accounting.keys.jwks.key, names::kJwksFile}});
  }
  return etc.volume(names::kSlurmEtcVolume, kMode);
}

json::Value pod_spec(const Accounting& accounting) {
  json::Value daemon = overlay_container(
      json::Object{{"name", kApp.name},
                   {"ports", container_port(kApp.name, names::kSlurmdbdPort)},
                   {"readinessProbe", tcp_probe(kApp.name)},
                   {"securityContext", container_user(names::kSlurmUid)},
                   {"volumeMounts", mounts({{names::kSlurmEtcVolume, std::string(names::kSlurmEtc), true},
                                            {names::kRunVolume, "/run"}})}},
      accounting.slurmdbd, subject(accounting), "spec.slurmdbd");
  ensure_image(daemon, {}, subject(accounting), "spec.slurmdbd");
  return overlay_pod_spec(
      json::Object{{"automountServiceAccountToken", false},
                   {"securityContext", pod_user(names::kSlurmUid)},
                   {"containers", json::Array{std::move(daemon)}},
                   {"volumes", json::Array{etc_volume(accounting), memory_volume(names::kRunVolume)}}},
      accounting.pod_template.spec, subject(accounting));
}

}  // namespace

json::Value accounting_service(const Accounting& accounting) {
  const Subject owner = subject(accounting);
  const std::string& name = accounting.meta.name;
  return service(owner, {.meta = child_meta(owner, names::accounting(name), accounting.service.labels,
                                            accounting.service.annotations, child_labels(kApp, name)),
                         .user_spec = accounting.service.spec,
                         .selector = selector_labels(kApp, name),
                         .port_name = kApp.name,
                         .port = slurmdbd_port(accounting),
                         .node_port = accounting.service.node_port});
}

json::Value accounting_config(const Accounting& accounting, std::string_view slurmdbd_conf) {
  const Subject owner = subject(accounting);
  const std::string& name = accounting.meta.name;
  return secret(owner, child_meta(owner, names::accounting(name), {}, {}, child_labels(kApp, name)),
                {{std::string(names::kSlurmdbdConf), std::string(slurmdbd_conf)}}, false);
}

json::Value accounting_stateful_set(const Accounting& accounting, std::string_view slurmdbd_conf,
                                    const KeyHashes& keys) {
  const Subject owner = subject(accounting);
  const std::string& name = accounting.meta.name;
  const ChildMeta meta = child_meta(owner, names::accounting(name), accounting.pod_template.labels,
                                    accounting.pod_template.annotations, child_labels(kApp, name));
  const StringMap hashes{{std::string(names::kSlurmKeyHash), keys.slurm},
                         {std::string(names::kJwtKeyHash), keys.jwt},
                         {std::string(names::kSlurmdbdConfHash), sha256_hex(slurmdbd_conf)},
                         {std::string(names::kDefaultContainer), std::string(kApp.name)}};
  return json::Object{
      {"apiVersion", "apps/v1"},
      {"kind", "StatefulSet"},
      {"metadata", child_metadata(owner, meta)},
      {"spec",
       json::Object{
           {"replicas", 1},
           {"podManagementPolicy", "Parallel"},
           {"revisionHistoryLimit", 0},
           {"serviceName", names::accounting(name)},
           {"selector", json::Object{{"matchLabels", to_json(selector_labels(kApp, name))}}},
           {"template", json::Object{{"metadata", template_metadata(meta.labels, merged({&meta.annotations, &hashes}))},
                                     {"spec", pod_spec(accounting)}}}}}};
}

}  // namespace bascule::op

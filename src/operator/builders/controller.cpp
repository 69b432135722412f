#include "operator/builders/controller.hpp"

#include <fmt/format.h>

#include <utility>

#include "operator/api/derived.hpp"
#include "operator/builders/overlay.hpp"
#include "operator/builders/pod.hpp"
#include "operator/builders/scripts.hpp"
#include "operator/config/hash.hpp"
#include "operator/config/slurm_conf.hpp"

namespace bascule::op {

namespace {

constexpr names::App kApp = names::kSlurmctld;
constexpr std::string_view kClientRole = "client";

StringMap labels(const Controller& controller) {
  return child_labels(kApp, controller.meta.name);
}
StringMap selector(const Controller& controller) {
  return selector_labels(kApp, controller.meta.name);
}

StringMap config_data(const Controller& controller, std::string_view slurm_conf, const FilePlan& files) {
  StringMap data{{std::string(names::kSlurmConf), std::string(slurm_conf)}};
  if (!controller.external && !files.own_cgroup_conf) data.emplace(names::kCgroupConf, default_cgroup_conf());
  return data;
}

std::string claim_of(const Controller& controller) {
  const Persistence& persistence = controller.persistence;
  if (controller.ha && (!persistence.enabled || persistence.existing_claim.empty())) {
    subject(controller)
        .fault("spec.persistence",
               "must be enabled and name an existingClaim that all slurmctld pods can mount "
               "(ReadWriteMany), since spec.ha is enabled");
  }
  return persistence.enabled ? persistence.existing_claim : std::string();
}

bool templated_claim(const Controller& controller) {
  return controller.persistence.enabled && controller.persistence.existing_claim.empty();
}

json::Object etc_volume(const Controller& controller, const FilePlan& files) {
  constexpr std::int64_t kMode = 0610;
  Projection etc;
  // Ours last: where files of one name meet, the last counts.
  for (const std::string& source : files.sources) etc.config_map(source);
  etc.config_map(names::config(controller.meta.name))
      .secret_key(controller.keys.slurm, names::kSlurmKeyFile)
      .secret_key(controller.keys.jwt, names::kJwtKeyFile);
  if (!controller.keys.jwks.empty()) {
    etc.config_map(controller.keys.jwks.name, {{controller.keys.jwks.key, names::kJwksFile}});
  }
  return etc.volume(names::kSlurmEtcVolume, kMode);
}

json::Value slurmctld(const Controller& controller) {
  // A standby never says it is ready: with one, readiness would stop every ordered rollout.
  const std::string_view ready = replicas(controller) > 1 ? "/livez" : "/readyz";
  json::Value container = overlay_container(
      json::Object{{"name", kApp.name},
                   {"ports", container_port(kApp.name, slurmctld_port(controller))},
                   {"startupProbe", patient(http_probe("/livez", kApp.name))},
                   {"livenessProbe", patient(http_probe("/livez", kApp.name))},
                   {"readinessProbe", http_probe(ready, kApp.name)},
                   {"securityContext", container_user(names::kSlurmUid)},
                   {"volumeMounts", mounts({{names::kSlurmEtcVolume, std::string(names::kSlurmEtc), true},
                                            {names::kRunVolume, "/run"},
                                            {names::kStateSaveVolume,
                                             fmt::format("{}/{}", names::kStateSaveDir, controller.cluster_name)},
                                            {names::kAuthSocketVolume, std::string(names::kAuthSocketDir)},
                                            {names::kLogVolume, std::string(names::kLogDir)}})}},
      controller.slurmctld, subject(controller), "spec.slurmctld");
  ensure_image(container, {}, subject(controller), "spec.slurmctld");
  return container;
}

json::Value reconfigure_sidecar(const Controller& controller, std::string_view image, const std::string& key_hash) {
  json::Value container = overlay_container(
      json::Object{{"name", names::kReconfigure},
                   {"command", json::Array{"tini", "-g", "--", "bash", "-c", scripts::kReconfigure}},
                   {"env", json::Array{json::Object{{"name", "SLURM_KEY_HASH"}, {"value", key_hash}}}},
                   {"restartPolicy", "Always"},
                   {"volumeMounts", mounts({{names::kSlurmEtcVolume, std::string(names::kSlurmEtc), true},
                                            {names::kAuthSocketVolume, std::string(names::kAuthSocketDir), true}})}},
      controller.reconfigure, subject(controller), "spec.reconfigure");
  ensure_image(container, image, subject(controller), "spec.reconfigure");
  return container;
}

json::Value pod_spec(const Controller& controller, const FilePlan& files, const KeyHashes& keys) {
  json::Value daemon = slurmctld(controller);
  const std::string image(json::string_at(daemon, {"image"}));
  json::Array init;
  if (controller.inplace_reconfigure) init.push_back(reconfigure_sidecar(controller, image, keys.slurm));
  init.push_back(
      logfile_sidecar(controller.logfile, fmt::format("{}/slurmctld.log", names::kLogDir), image, subject(controller)));
  json::Array volumes{etc_volume(controller, files), memory_volume(names::kLogVolume), memory_volume(names::kRunVolume),
                      disk_volume(names::kAuthSocketVolume)};
  const std::string claim = claim_of(controller);
  if (!claim.empty()) {
    volumes.push_back(claim_volume(names::kStateSaveVolume, claim));
  } else if (!templated_claim(controller)) {
    volumes.push_back(disk_volume(names::kStateSaveVolume));
  }
  json::Value spec = overlay_pod_spec(json::Object{{"automountServiceAccountToken", false},
                                                   {"securityContext", pod_user(names::kSlurmUid)},
                                                   {"initContainers", std::move(init)},
                                                   {"containers", json::Array{std::move(daemon)}},
                                                   {"volumes", std::move(volumes)}},
                                      controller.pod_template.spec, subject(controller));
  if (replicas(controller) > 1)
    require_apart(spec, {{"matchLabels", to_json(selector(controller))}}, subject(controller));
  return spec;
}

StringMap pod_annotations(const Controller& controller, std::string_view slurm_conf, const FilePlan& files,
                          const KeyHashes& keys) {
  StringMap annotations{{std::string(names::kSlurmKeyHash), keys.slurm},
                        {std::string(names::kJwtKeyHash), keys.jwt},
                        {std::string(names::kDefaultContainer), std::string(kApp.name)}};
  // In place, the sidecar tells slurmctld; else the pods are made anew.
  if (!controller.inplace_reconfigure) {
    const std::string own = hash_of(config_data(controller, slurm_conf, files));
    annotations.emplace(names::kSlurmConfigHash, Hasher().add("own", own).add("files", files.hash).hex());
  }
  return annotations;
}

// A claim without a size is refused by the API server.
json::Value claim_template(const Controller& controller) {
  json::Value spec = controller.persistence.claim;
  if (!json::array_at(spec, {"accessModes"})) spec.get_object()["accessModes"] = json::Array{"ReadWriteOnce"};
  if (!json::find(spec, {"resources", "requests", "storage"})) {
    json::at_or_create(spec, {"resources", "requests", "storage"}) = "4Gi";
  }
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "PersistentVolumeClaim"},
                      {"metadata", json::Object{{"name", names::kStateSaveVolume}}},
                      {"spec", std::move(spec)}};
}

}  // namespace

json::Value controller_internal_service(const Controller& controller) {
  const Subject owner = subject(controller);
  return service(
      owner, {.meta = child_meta(owner, names::controller_internal(controller.meta.name), {}, {}, labels(controller)),
              .selector = selector(controller),
              .port_name = kApp.name,
              .port = slurmctld_port(controller),
              .headless = true});
}

json::Value controller_service(const Controller& controller) {
  const Subject owner = subject(controller);
  StringMap own = labels(controller);
  own.emplace(names::kServiceRole, kClientRole);
  StringMap selected = selector(controller);
  // Only with a standby is there a choice to make; without, no label has to be set before anyone can connect.
  if (replicas(controller) > 1) selected.emplace(names::kActive, "true");
  return service(owner, {.meta = child_meta(owner, names::controller(controller.meta.name), controller.service.labels,
                                            controller.service.annotations, own),
                         .user_spec = controller.service.spec,
                         .selector = selected,
                         .port_name = kApp.name,
                         .port = slurmctld_port(controller),
                         .node_port = controller.service.node_port});
}

json::Value controller_config(const Controller& controller, std::string_view slurm_conf, const FilePlan& files) {
  const Subject owner = subject(controller);
  return config_map(owner, child_meta(owner, names::config(controller.meta.name), {}, {}, labels(controller)),
                    config_data(controller, slurm_conf, files));
}

json::Value controller_stateful_set(const Controller& controller, std::string_view slurm_conf, const FilePlan& files,
                                    const KeyHashes& keys) {
  const Subject owner = subject(controller);
  const PodTemplate& pod_template = controller.pod_template;
  const ChildMeta meta = child_meta(owner, names::controller(controller.meta.name), pod_template.labels,
                                    pod_template.annotations, labels(controller));
  const StringMap hashes = pod_annotations(controller, slurm_conf, files, keys);
  json::Object spec{
      {"replicas", replicas(controller)},
      {"revisionHistoryLimit", 0},
      {"serviceName", names::controller_internal(controller.meta.name)},
      {"selector", json::Object{{"matchLabels", to_json(selector(controller))}}},
      {"template", json::Object{{"metadata", template_metadata(meta.labels, merged({&meta.annotations, &hashes}))},
                                {"spec", pod_spec(controller, files, keys)}}}};
  if (templated_claim(controller)) spec["volumeClaimTemplates"] = json::Array{claim_template(controller)};
  return json::Object{{"apiVersion", "apps/v1"},
                      {"kind", "StatefulSet"},
                      {"metadata", child_metadata(owner, meta)},
                      {"spec", std::move(spec)}};
}

bool wants_service_monitor(const Controller& controller) noexcept {
  return controller.metrics.enabled && controller.metrics.monitor && !controller.external;
}

json::Value controller_service_monitor(const Controller& controller) {
  const Subject owner = subject(controller);
  const Metrics& metrics = controller.metrics;
  std::vector<MetricsEndpoint> endpoints = metrics.endpoints;
  if (endpoints.empty()) {
    for (const char* path : {"/metrics/jobs", "/metrics/nodes", "/metrics/partitions", "/metrics/scheduler"}) {
      endpoints.push_back({path, {}, {}});
    }
  }
  json::Array list;
  for (const MetricsEndpoint& endpoint : endpoints) {
    json::Object item{{"path", endpoint.path}, {"port", kApp.name}, {"scheme", "http"}};
    const std::string& interval = endpoint.interval.empty() ? metrics.interval : endpoint.interval;
    const std::string& timeout = endpoint.scrape_timeout.empty() ? metrics.scrape_timeout : endpoint.scrape_timeout;
    if (!interval.empty()) item["interval"] = interval;
    if (!timeout.empty()) item["scrapeTimeout"] = timeout;
    list.push_back(std::move(item));
  }
  // One of our two Services, else everything is scraped twice.
  StringMap selected = selector(controller);
  selected.emplace(names::kServiceRole, kClientRole);
  const ChildMeta meta = child_meta(owner, names::controller(controller.meta.name), metrics.labels, metrics.annotations,
                                    labels(controller));
  return json::Object{
      {"apiVersion", "monitoring.coreos.com/v1"},
      {"kind", "ServiceMonitor"},
      {"metadata", child_metadata(owner, meta)},
      {"spec", json::Object{{"namespaceSelector", json::Object{{"matchNames", json::Array{controller.meta.ns}}}},
                            {"selector", json::Object{{"matchLabels", to_json(selected)}}},
                            {"endpoints", std::move(list)}}}};
}

}  // namespace bascule::op

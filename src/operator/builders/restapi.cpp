#include "operator/builders/restapi.hpp"

#include <fmt/format.h>

#include <utility>

#include "operator/api/derived.hpp"
#include "operator/builders/overlay.hpp"
#include "operator/builders/pod.hpp"
#include "operator/config/hash.hpp"
#include "operator/config/slurm_conf.hpp"

namespace bascule::op {

namespace {

constexpr names::App kApp = names::kSlurmrestd;

json::Object environment(std::string_view name, std::string_view value) {
  return {{"name", name}, {"value", value}};
}

json::Value slurmrestd(const RestApi& api, const Controller& controller) {
  // Without accounting slurmrestd must not load the plugin that asks slurmdbd.
  const bool accounting = !controller.accounting.empty();
  json::Value container = overlay_container(
      json::Object{
          {"name", kApp.name},
          {"args", accounting ? json::Array{} : json::Array{"-s", "openapi/slurmctld"}},
          // A table of 10,000 jobs is 50 MB so and 80 MB pretty, and without a bound each thread keeps a gigabyte.
          {"env", json::Array{environment("SLURM_JWT", "daemon"), environment("SLURMRESTD_JSON", "compact"),
                              environment("MALLOC_ARENA_MAX", "1"),
                              environment("SLURMRESTD_SECURITY", "disable_unshare_files,disable_unshare_sysv")}},
          {"ports", container_port(kApp.name, names::kSlurmrestdPort)},
          {"startupProbe", patient(tcp_probe(kApp.name))},
          {"livenessProbe", patient(tcp_probe(kApp.name))},
          {"readinessProbe", tcp_probe(kApp.name)},
          {"securityContext", container_user(names::kNobodyUid)},
          {"volumeMounts", mounts({{names::kSlurmEtcVolume, std::string(names::kSlurmEtc), true}})}},
      api.slurmrestd, subject(api), "spec.slurmrestd");
  ensure_image(container, {}, subject(api), "spec.slurmrestd");
  // slurmrestd takes addresses after all options.
  container.get_object()["args"].get_array().push_back(json::Value(fmt::format("0.0.0.0:{}", names::kSlurmrestdPort)));
  return container;
}

json::Value pod_spec(const RestApi& api, const Controller& controller) {
  constexpr std::int64_t kMode = 0600;
  Projection etc;
  etc.config_map(names::config(controller.meta.name), {{names::kSlurmConf, names::kSlurmConf}})
      .secret_key(controller.keys.slurm, names::kSlurmKeyFile);
  return overlay_pod_spec(json::Object{{"automountServiceAccountToken", false},
                                       {"securityContext", pod_user(names::kNobodyUid)},
                                       {"containers", json::Array{slurmrestd(api, controller)}},
                                       {"volumes", json::Array{etc.volume(names::kSlurmEtcVolume, kMode)}}},
                          api.pod_template.spec, subject(api));
}

}  // namespace

json::Value restapi_service(const RestApi& api) {
  const Subject owner = subject(api);
  const std::string& name = api.meta.name;
  return service(owner, {.meta = child_meta(owner, names::restapi(name), api.service.labels, api.service.annotations,
                                            child_labels(kApp, name)),
                         .user_spec = api.service.spec,
                         .selector = selector_labels(kApp, name),
                         .port_name = kApp.name,
                         .port = api.service.port != 0 ? api.service.port : names::kSlurmrestdPort,
                         .node_port = api.service.node_port});
}

json::Value restapi_deployment(const RestApi& api, const Controller& controller, std::string_view slurm_conf,
                               const KeyHashes& keys) {
  const Subject owner = subject(api);
  const std::string& name = api.meta.name;
  const ChildMeta meta = child_meta(owner, names::restapi(name), api.pod_template.labels, api.pod_template.annotations,
                                    child_labels(kApp, name));
  const StringMap hashes{{std::string(names::kSlurmKeyHash), keys.slurm},
                         {std::string(names::kSlurmConfigHash), sha256_hex(client_part(slurm_conf))},
                         {std::string(names::kDefaultContainer), std::string(kApp.name)}};
  return json::Object{
      {"apiVersion", "apps/v1"},
      {"kind", "Deployment"},
      {"metadata", child_metadata(owner, meta)},
      {"spec",
       json::Object{
           {"replicas", api.replicas},
           {"revisionHistoryLimit", 0},
           {"selector", json::Object{{"matchLabels", to_json(selector_labels(kApp, name))}}},
           {"template", json::Object{{"metadata", template_metadata(meta.labels, merged({&meta.annotations, &hashes}))},
                                     {"spec", pod_spec(api, controller)}}}}}};
}

}  // namespace bascule::op

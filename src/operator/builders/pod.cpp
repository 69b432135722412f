#include "operator/builders/pod.hpp"

#include <fmt/format.h>

#include <utility>

#include "operator/builders/overlay.hpp"
#include "operator/builders/scripts.hpp"

namespace bascule::op {

json::Array mounts(const std::vector<Mount>& list) {
  json::Array result;
  for (const Mount& mount : list) {
    json::Object object{{"name", mount.volume}, {"mountPath", mount.path}};
    if (!mount.sub_path.empty()) object["subPath"] = mount.sub_path;
    if (mount.read_only) object["readOnly"] = true;
    result.push_back(std::move(object));
  }
  return result;
}

json::Object memory_volume(std::string_view name) {
  return {{"name", name}, {"emptyDir", json::Object{{"medium", "Memory"}}}};
}
json::Object disk_volume(std::string_view name) {
  return {{"name", name}, {"emptyDir", json::Object{}}};
}
json::Object claim_volume(std::string_view name, std::string_view claim) {
  return {{"name", name}, {"persistentVolumeClaim", json::Object{{"claimName", claim}}}};
}

Projection& Projection::add(std::string_view kind, std::string_view name, const std::vector<File>& files) {
  json::Object source{{"name", name}};
  json::Array items;
  for (const File& file : files) {
    json::Object item{{"key", file.key}, {"path", file.path}};
    if (file.mode != 0) item["mode"] = file.mode;
    items.push_back(std::move(item));
  }
  if (!items.empty()) source["items"] = std::move(items);
  json::Object entry;
  entry[kind] = std::move(source);
  sources_.push_back(std::move(entry));
  return *this;
}

Projection& Projection::config_map(std::string_view name, const std::vector<File>& files) {
  return add("configMap", name, files);
}
Projection& Projection::secret(std::string_view name, const std::vector<File>& files) {
  return add("secret", name, files);
}
Projection& Projection::secret_key(const KeyRef& ref, std::string_view path, std::int64_t mode) {
  return ref.empty() ? *this : secret(ref.name, {{ref.key, path, mode}});
}

json::Object Projection::volume(std::string_view name, std::int64_t default_mode) const {
  return {{"name", name}, {"projected", json::Object{{"defaultMode", default_mode}, {"sources", sources_}}}};
}

json::Object http_probe(std::string_view path, std::string_view port) {
  return {{"httpGet", json::Object{{"path", path}, {"port", port}}}};
}
json::Object tcp_probe(std::string_view port) {
  return {{"tcpSocket", json::Object{{"port", port}}}};
}
json::Object patient(json::Object probe, int failures) {
  probe["failureThreshold"] = failures;
  probe["periodSeconds"] = 10;
  return probe;
}

json::Array container_port(std::string_view name, std::int64_t port) {
  return {json::Object{{"name", name}, {"containerPort", port}, {"protocol", "TCP"}}};
}

json::Object container_user(std::int64_t uid) {
  return {{"runAsNonRoot", true}, {"runAsUser", uid}, {"runAsGroup", uid}};
}
json::Object pod_user(std::int64_t uid) {
  json::Object user = container_user(uid);
  user["fsGroup"] = uid;
  return user;
}

void ensure_image(json::Value& container, std::string_view fallback, const Subject& subject, std::string_view field) {
  if (!json::string_at(container, {"image"}).empty()) return;
  if (fallback.empty()) subject.fault(fmt::format("{}.image", field), "is missing; name the container image there");
  container.get_object()["image"] = fallback;
}

json::Value logfile_sidecar(const json::Value& patch, std::string_view log, std::string_view fallback_image,
                            const Subject& subject) {
  json::Value container =
      overlay_container(json::Object{{"name", "logfile"},
                                     {"command", json::Array{"sh", "-c", scripts::kLogfile}},
                                     {"env", json::Array{json::Object{{"name", "SOCKET"}, {"value", log}}}},
                                     {"restartPolicy", "Always"},
                                     {"volumeMounts", mounts({{names::kLogVolume, std::string(names::kLogDir)}})}},
                        patch, subject, "spec.logfile");
  ensure_image(container, fallback_image, subject, "spec.logfile");
  return container;
}

void require_apart(json::Value& pod_spec, json::Object label_selector, const Subject& subject) {
  try {
    json::Value& terms =
        json::at_or_create(pod_spec, {"affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"});
    if (!terms.is_array()) terms = json::Array{};
    terms.get_array().push_back(
        json::Object{{"labelSelector", std::move(label_selector)}, {"topologyKey", "kubernetes.io/hostname"}});
  } catch (const json::ShapeError& error) {
    subject.fault("spec.template.spec", error.what());
  }
}

}  // namespace bascule::op

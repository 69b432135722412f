// A namespace as a map, for tests of plans.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/base64.hpp"
#include "json/patch.hpp"
#include "json/yaml.hpp"
#include "operator/api/resources.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile::test {

inline json::Value custom(const kube::Resource& resource, std::string_view name, std::string_view spec) {
  return json::Object{
      {"apiVersion", resource.api_version()},
      {"kind", resource.kind},
      {"metadata", json::Object{{"name", name}, {"namespace", "slurm"}, {"uid", std::string(name) + "-uid"}}},
      {"spec", json::parse_yaml(spec)}};
}

inline json::Value secret(std::string_view name, std::string_view key, std::string_view bytes) {
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "Secret"},
                      {"metadata", json::Object{{"name", name}, {"namespace", "slurm"}}},
                      {"data", json::Object{{key, base64_encode(bytes)}}}};
}

inline json::Value config_map(std::string_view name, json::Object data) {
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "ConfigMap"},
                      {"metadata", json::Object{{"name", name}, {"namespace", "slurm"}}},
                      {"data", std::move(data)}};
}

constexpr std::string_view kController = R"({
slurmKeyRef: {name: auth, key: slurm.key}, jwtKeyRef: {name: jwt, key: jwt.key}, slurmctld: {image: slurmctld},
logfile: {image: alpine}})";
constexpr std::string_view kAccounting = R"({
slurmKeyRef: {name: auth, key: slurm.key}, jwtKeyRef: {name: jwt, key: jwt.key}, slurmdbd: {image: slurmdbd},
storageConfig: {host: mariadb, username: slurm, passwordKeyRef: {name: db, key: password}}})";
constexpr std::string_view kRestApi = "{controllerRef: {name: slurm}, slurmrestd: {image: slurmrestd}}";
constexpr std::string_view kLoginSet =
    "{controllerRef: {name: slurm}, login: {image: login}, sssdConfRef: {name: sssd, key: sssd.conf}}";
constexpr std::string_view kNodeSet = "{controllerRef: {name: slurm}, slurmd: {image: slurmd}, ssh: {enabled: true}}";
constexpr std::string_view kToken = "{jwtKeyRef: {name: jwt, key: jwt.key}, username: ada, lifetime: 10m}";

class MapView final : public View {
 public:
  void put(const kube::Resource& resource, json::Value object) {
    const std::string name(json::string_at(object, {"metadata", "name"}));
    objects[{resource.resource, name}] = std::move(object);
  }
  void drop(const kube::Resource& resource, const std::string& name) { objects.erase({resource.resource, name}); }
  const json::Value* find(const kube::Resource& resource, std::string_view name) override {
    const auto found = objects.find({resource.resource, std::string(name)});
    return found == objects.end() ? nullptr : &found->second;
  }
  std::vector<const json::Value*> node_sets_of(std::string_view controller) override {
    return that_name("nodesets", "controllerRef", controller);
  }
  std::vector<const json::Value*> controllers_of(std::string_view accounting) override {
    return that_name("controllers", "accountingRef", accounting);
  }
  std::map<std::pair<std::string, std::string>, json::Value> objects;

 private:
  std::vector<const json::Value*> that_name(std::string_view plural, std::string_view field, std::string_view name) {
    std::vector<const json::Value*> out;
    for (const auto& [key, object] : objects) {
      if (key.first == plural && json::string_at(object, {"spec", field, "name"}) == name) out.push_back(&object);
    }
    return out;
  }
};

// With the Secrets that the objects above name.
inline MapView whole_namespace() {
  MapView view;
  view.put(kSecrets, secret("auth", "slurm.key", "auth-key"));
  view.put(kSecrets, secret("jwt", "jwt.key", "jwt-key"));
  view.put(kSecrets, secret("db", "password", "secret\n"));
  view.put(kSecrets, secret("sssd", "sssd.conf", "[sssd]"));
  view.put(kControllers, custom(kControllers, "slurm", kController));
  view.put(kAccountings, custom(kAccountings, "slurm", kAccounting));
  return view;
}

// "Service slurm-controller", in order.
inline std::vector<std::string> children_of(const Plan& plan) {
  std::vector<std::string> out;
  for (const Child& child : plan.children) {
    out.push_back(child.resource->kind + " " + std::string(json::string_at(child.object, {"metadata", "name"})));
  }
  return out;
}
inline const json::Value& child(const Plan& plan, std::string_view kind) {
  for (const Child& one : plan.children) {
    if (one.resource->kind == kind) return one.object;
  }
  static const json::Value kNone;
  ADD_FAILURE() << "no " << kind << " among the children";
  return kNone;
}
inline std::vector<std::string> waits_of(const Plan& plan) {
  std::vector<std::string> out;
  for (const Wait& wait : plan.waits) out.push_back(wait.sentence);
  return out;
}

}  // namespace bascule::op::reconcile::test

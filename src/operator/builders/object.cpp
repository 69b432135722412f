#include "operator/builders/object.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/base64.hpp"
#include "operator/api/read.hpp"

namespace bascule::op {

namespace {

constexpr std::string_view kManagers[] = {
    "kubectl.kubernetes.io/",       "meta.helm.sh/",          "helm.sh/", "argocd.argoproj.io/",
    "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/"};
constexpr std::string_view kVersionLabel = "app.kubernetes.io/version";

void check_ports(const Subject& subject, const json::Array& ports) {
  std::set<std::string> seen_names;
  std::set<std::pair<std::int64_t, std::string>> seen_numbers;
  for (const json::Value& port : ports) {
    const std::string name(json::string_at(port, {"name"}));
    const std::int64_t number = json::int_at(port, {"port"}).value_or(0);
    if (!seen_names.insert(name).second) {
      subject.fault("spec.service.spec.ports",
                    fmt::format("has two ports named \"{}\", of which one may be the operator's; rename one", name));
    }
    if (!seen_numbers.emplace(number, json::string_at(port, {"protocol"}, "TCP")).second) {
      subject.fault("spec.service.spec.ports",
                    fmt::format("has port {} twice, of which one may be the operator's; change one", number));
    }
  }
}

}  // namespace

void Subject::fault(std::string_view field, std::string_view what) const {
  const std::string object = fmt::format("{} {}/{}", kind, meta.ns, meta.name);
  throw BadObject(object, std::string(field), fmt::format("{}: {} {}", object, field, what));
}

json::Object to_json(const StringMap& map) {
  json::Object object;
  for (const auto& [key, value] : map) object.emplace(key, value);
  return object;
}

StringMap merged(std::initializer_list<const StringMap*> maps) {
  StringMap result;
  for (const StringMap* map : maps) {
    for (const auto& [key, value] : *map) result[key] = value;
  }
  return result;
}

StringMap inheritable(const StringMap& map) {
  StringMap result = map;
  std::erase_if(result, [](const auto& entry) {
    const std::string_view key = entry.first;
    return key == kVersionLabel || key == names::kTakeSlurmKey || key == names::kDropLines ||
           std::ranges::any_of(kManagers, [&](std::string_view prefix) { return key.starts_with(prefix); });
  });
  return result;
}

json::Object owner_reference(const Subject& subject, bool controller) {
  json::Object owner{{"apiVersion", names::kApiVersion},
                     {"kind", subject.kind},
                     {"name", subject.meta.name},
                     {"uid", subject.meta.uid},
                     {"blockOwnerDeletion", true}};
  if (controller) owner["controller"] = true;
  return owner;
}

json::Object template_metadata(const StringMap& labels, const StringMap& annotations) {
  json::Object metadata{{"labels", to_json(labels)}};
  if (!annotations.empty()) metadata["annotations"] = to_json(annotations);
  return metadata;
}

json::Object child_metadata(const Subject& subject, const ChildMeta& child) {
  json::Object metadata{{"name", child.name}, {"namespace", subject.meta.ns}};
  if (!child.labels.empty()) metadata["labels"] = to_json(child.labels);
  if (!child.annotations.empty()) metadata["annotations"] = to_json(child.annotations);
  metadata["ownerReferences"] = json::Array{owner_reference(subject)};
  return metadata;
}

ChildMeta child_meta(const Subject& subject, std::string name, const StringMap& part_labels,
                     const StringMap& part_annotations, const StringMap& own_labels) {
  const StringMap labels = merged({&subject.meta.labels, &part_labels});
  const StringMap annotations = merged({&subject.meta.annotations, &part_annotations});
  const StringMap kept = inheritable(labels);
  return {std::move(name), merged({&kept, &own_labels}), inheritable(annotations)};
}

json::Value config_map(const Subject& subject, const ChildMeta& meta, const StringMap& data) {
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "ConfigMap"},
                      {"metadata", child_metadata(subject, meta)},
                      {"immutable", false},
                      {"data", to_json(data)}};
}

json::Value secret(const Subject& subject, const ChildMeta& meta, const StringMap& data, bool immutable) {
  StringMap encoded;
  for (const auto& [key, value] : data) encoded[key] = base64_encode(value);
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "Secret"},
                      {"metadata", child_metadata(subject, meta)},
                      {"immutable", immutable},
                      {"data", to_json(encoded)}};
}

json::Value service(const Subject& subject, ServiceInput input) {
  json::Value spec_value = std::move(input.user_spec);
  json::Object& spec = spec_value.get_object();
  spec.stable_erase("externalIPs");
  StringMap selector;
  if (const json::Object* own = json::object_at(spec_value, {"selector"})) {
    for (const auto& [key, value] : *own) {
      if (value.is_string()) selector.emplace(key, json::view(value.get_string()));
    }
  }
  spec["selector"] = to_json(merged({&selector, &input.selector}));
  const json::Array* own_ports = json::array_at(spec_value, {"ports"});
  json::Array ports = own_ports ? *own_ports : json::Array{};
  json::Object port{
      {"name", input.port_name}, {"port", input.port}, {"targetPort", input.port_name}, {"protocol", "TCP"}};
  if (input.node_port != 0) port["nodePort"] = input.node_port;
  ports.push_back(std::move(port));
  check_ports(subject, ports);
  spec["ports"] = std::move(ports);
  if (input.headless) {
    spec["clusterIP"] = "None";
    spec["publishNotReadyAddresses"] = true;
  }
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "Service"},
                      {"metadata", child_metadata(subject, input.meta)},
                      {"spec", std::move(spec_value)}};
}

}  // namespace bascule::op

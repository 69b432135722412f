#include <algorithm>
#include <charconv>

#include "operator/api/names.hpp"
#include "operator/nodeset/scale.hpp"
#include "operator/nodeset/view.hpp"

namespace bascule::op::nodeset {

namespace {

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

bool is_among(std::string_view value, const json::Array* values) {
  return values != nullptr && std::ranges::any_of(*values, [&](const json::Value& item) {
           return item.is_string() && json::view(item.get_string()) == value;
         });
}

// An operator that is not known matches nothing.
bool requirement_holds(const json::Value& requirement, const std::optional<std::string_view>& value) {
  const std::string_view op = json::string_at(requirement, {"operator"});
  const json::Array* values = json::array_at(requirement, {"values"});
  if (op == "Exists") return value.has_value();
  if (op == "DoesNotExist") return !value;
  if (op == "In") return value && is_among(*value, values);
  if (op == "NotIn") return !value || !is_among(*value, values);
  if (op != "Gt" && op != "Lt") return false;
  if (!value || values == nullptr || values->size() != 1 || !values->front().is_string()) return false;
  const auto has = number_of(*value), bound = number_of(json::view(values->front().get_string()));
  return has && bound && (op == "Gt" ? *has > *bound : *has < *bound);
}

std::optional<std::string_view> label_of(const WorkerNode& node, std::string_view key) {
  const kube::InternedString* value = kube::find(node.meta.labels, key);
  if (value == nullptr) return std::nullopt;
  return value->view();
}

bool term_holds(const json::Value& term, const WorkerNode& node) {
  const json::Array* expressions = json::array_at(term, {"matchExpressions"});
  const json::Array* fields = json::array_at(term, {"matchFields"});
  static const json::Array kNone;
  bool any = false;
  for (const json::Value& one : expressions != nullptr ? *expressions : kNone) {
    any = true;
    if (!requirement_holds(one, label_of(node, json::string_at(one, {"key"})))) return false;
  }
  for (const json::Value& one : fields != nullptr ? *fields : kNone) {
    any = true;
    if (json::string_at(one, {"key"}) != "metadata.name") return false;
    if (!requirement_holds(one, std::string_view(node.meta.key.name))) return false;
  }
  return any;  // a term without requirements matches nothing
}

std::optional<std::string> annotation(const WorkerNode& node, std::string_view key) {
  const kube::InternedString* value = kube::find(node.meta.annotations, key);
  if (value == nullptr) return std::nullopt;
  return value->str();
}

}  // namespace

Placement::Placement(const json::Value& pod_spec) {
  if (const json::Value* selector = json::find(pod_spec, {"nodeSelector"})) selector_ = *selector;
  const json::Value* required =
      json::find(pod_spec, {"affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"});
  if (required != nullptr && required->is_object()) {
    const json::Value* terms = json::find(*required, {"nodeSelectorTerms"});
    terms_ = terms != nullptr ? *terms : json::Value(json::Array{});
  }
  json::Interner interner;
  if (const json::Array* list = json::array_at(pod_spec, {"tolerations"})) {
    for (const json::Value& item : *list) {
      tolerations_.push_back({interner(json::string_at(item, {"key"})), interner(json::string_at(item, {"value"})),
                              interner(json::string_at(item, {"effect"})),
                              json::string_at(item, {"operator"}) == "Exists"});
    }
  }
  for (const auto& [key, effect] : kDaemonTolerations) {
    tolerations_.push_back({interner(key), {}, interner(effect), true});
  }
  if (json::bool_at(pod_spec, {"hostNetwork"})) {
    tolerations_.push_back({interner("node.kubernetes.io/network-unavailable"), {}, interner("NoSchedule"), true});
  }
}

bool Placement::matches(const WorkerNode& node) const {
  if (const json::Object* selector = selector_.if_object()) {
    for (const auto& [key, value] : *selector) {
      const auto has = label_of(node, {key.data(), key.size()});
      if (!has || !value.is_string() || *has != json::view(value.get_string())) return false;
    }
  }
  if (terms_.is_null()) return true;
  const json::Array* terms = terms_.if_array();
  return terms != nullptr &&
         std::ranges::any_of(*terms, [&](const json::Value& term) { return term_holds(term, node); });
}

NodeView Placement::view_node(const WorkerNode& node) const {
  NodeView view;
  view.name = node.meta.key.name;
  view.unschedulable = node.unschedulable;
  view.matches = matches(node);
  for (const kube::Taint& taint : node.taints) {
    const bool tolerated = std::ranges::any_of(
        tolerations_, [&](const kube::Toleration& toleration) { return kube::tolerates(toleration, taint); });
    if (tolerated) continue;
    view.untolerated_no_schedule |= taint.effect == "NoSchedule";
    view.untolerated_no_execute |= taint.effect == "NoExecute";
  }
  view.cordon_reason = annotation(node, names::kNodeCordonReason);
  view.hostname_override = annotation(node, names::kHostnameOverride);
  view.topology = annotation(node, names::kTopologySpec);
  view.features = annotation(node, names::kFeaturesSpec);
  view.conditions = node.conditions;
  return view;
}

}  // namespace bascule::op::nodeset

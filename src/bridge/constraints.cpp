#include "bridge/constraints.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "bridge/names.hpp"
#include "json/value.hpp"

namespace bascule::bridge {

namespace {

std::vector<AffinityExpression> expressions(const json::Value& term, std::string_view field) {
  std::vector<AffinityExpression> out;
  const json::Array* list = json::array_at(term, {field});
  if (list == nullptr) return out;
  for (const json::Value& item : *list) {
    AffinityExpression e{
        std::string(json::string_at(item, {"key"})), std::string(json::string_at(item, {"operator"})), {}};
    if (const json::Array* values = json::array_at(item, {"values"})) {
      for (const json::Value& v : *values) {
        if (v.is_string()) e.values.emplace_back(v.get_string());
      }
    }
    out.push_back(std::move(e));
  }
  return out;
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

// `value` is nullopt when the label is not there.
bool holds(const AffinityExpression& e, std::optional<std::string_view> value) {
  const auto listed = [&] { return std::ranges::find(e.values, *value) != e.values.end(); };
  if (e.op == "In") return value && listed();
  if (e.op == "NotIn") return !value || !listed();
  if (e.op == "Exists") return value.has_value();
  if (e.op == "DoesNotExist") return !value;
  if ((e.op == "Gt" || e.op == "Lt") && value && e.values.size() == 1) {
    const auto have = integer(*value);
    const auto want = integer(e.values.front());
    return have && want && (e.op == "Gt" ? *have > *want : *have < *want);
  }
  return false;  // an operator we do not know restricts: never place a pod on a guess
}

std::optional<std::string_view> label(const kube::StringMap& labels, std::string_view key) {
  const kube::InternedString* value = kube::find(labels, key);
  if (value == nullptr) return std::nullopt;
  return value->view();
}

}  // namespace

bool holds(const AffinityTerm& term, const kube::Node& node) {
  if (term.labels.empty() && term.fields.empty()) return false;
  return std::ranges::all_of(term.labels, [&](const auto& e) { return holds(e, label(node.meta.labels, e.key)); }) &&
         std::ranges::all_of(term.fields, [&](const auto& e) {
           return e.key == "metadata.name" && holds(e, std::string_view(node.meta.key.name));
         });
}

bool selects(const json::Value& label_selector, const kube::StringMap& labels) {
  if (const json::Object* equal = json::object_at(label_selector, {"matchLabels"})) {
    for (const auto& [key, value] : *equal) {
      if (!value.is_string() || label(labels, key) != json::view(value.as_string())) return false;
    }
  }
  return std::ranges::all_of(expressions(label_selector, "matchExpressions"),
                             [&](const auto& e) { return holds(e, label(labels, e.key)); });
}

namespace {

// Taints that node life cycle and cordon put on and take off; Slurm hears of them as a drain.
bool comes_and_goes(std::string_view key) {
  static constexpr std::array<std::string_view, 8> kKeys{
      "node.kubernetes.io/not-ready",           "node.kubernetes.io/unreachable",
      "node.kubernetes.io/unschedulable",       "node.kubernetes.io/memory-pressure",
      "node.kubernetes.io/disk-pressure",       "node.kubernetes.io/pid-pressure",
      "node.kubernetes.io/network-unavailable", "node.cloudprovider.kubernetes.io/uninitialized"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

}  // namespace

PodConstraints constraints_of(const kube::Pod& pod) {
  PodConstraints out{pod.node_selector, {}, !pod.required_node_affinity.empty(), pod.tolerations, pod.requests};
  out.bridge = pod.scheduler_name.view();
  if (!out.has_affinity) return out;
  out.affinity = affinity_terms(json::parse(pod.required_node_affinity));
  return out;
}

bool needs_toleration(const kube::Pod& pod) {
  const auto first = std::ranges::find_if(pod.tolerations, [&pod](const kube::Toleration& t) {
    if (!(t.effect.empty() || t.effect.view() == "NoExecute")) return false;
    if (t.key.view() != names::kManagedNodeTaint) return t.key.empty() && t.exists;
    return t.exists || t.value == pod.scheduler_name;
  });
  return first == pod.tolerations.end() || first->limited;
}

std::vector<AffinityTerm> affinity_terms(const json::Value& selector) {
  std::vector<AffinityTerm> out;
  if (const json::Array* terms = json::array_at(selector, {"nodeSelectorTerms"})) {
    for (const json::Value& term : *terms) {
      out.push_back({expressions(term, "matchExpressions"), expressions(term, "matchFields")});
    }
  }
  return out;
}

std::string class_of(const kube::Pod& pod) {
  std::string text;
  const auto put = [&text](std::string_view part) {
    text += part;
    text += '\x1f';
  };
  for (const auto& [key, value] : pod.node_selector) put(key.view()), put(value.view());
  put("|");
  put(pod.required_node_affinity);
  put("|");
  for (const kube::Toleration& t : pod.tolerations) {
    put(t.key.view()), put(t.value.view()), put(t.effect.view()), put(t.exists ? "E" : "=");
  }
  put("|");
  for (const auto& [name, quantity] : pod.requests) put(name.view()), put(quantity.str());
  return text;
}

std::string misfit(const PodConstraints& constraints, const kube::Node& node, When when) {
  for (const auto& [key, value] : constraints.node_selector) {
    const auto have = label(node.meta.labels, key.view());
    if (!have || *have != value.view()) return "does not match the pod's node selector";
  }
  if (constraints.has_affinity &&
      std::ranges::none_of(constraints.affinity, [&](const auto& term) { return holds(term, node); })) {
    return "does not match the pod's node affinity";
  }
  for (const std::vector<AffinityTerm>& places : constraints.volumes) {
    if (std::ranges::none_of(places, [&](const auto& term) { return holds(term, node); })) {
      return "cannot have a volume of the pod";
    }
  }
  for (const kube::Taint& taint : node.taints) {
    if (taint.effect.view() != "NoSchedule" && taint.effect.view() != "NoExecute") continue;
    if (when == When::kBeforeSubmit && comes_and_goes(taint.key.view())) continue;
    if (taint.key.view() == names::kManagedNodeTaint && taint.effect.view() == "NoExecute" &&
        taint.value.view() == constraints.bridge) {
      continue;
    }
    if (std::ranges::none_of(constraints.tolerations, [&](const auto& t) { return kube::tolerates(t, taint); })) {
      return "has the taint " + std::string(taint.key.view()) + " that the pod does not tolerate";
    }
  }
  for (const auto& [name, quantity] : constraints.requests) {
    // Classes of devices handed out by DRA are not in allocatable; Slurm counts them as GRES.
    if (name.view().starts_with(names::kDeviceClassPrefix)) continue;
    if (quantity > kube::amount(node.allocatable, name.view())) return "is too small: " + std::string(name.view());
  }
  return {};
}

}  // namespace bascule::bridge

// Rules for a NodeSet. Source: slurmd(8), --conf; slurm.conf(5), node parameters; Kubernetes, names of pods.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/duration.hpp"
#include "kube/covers.hpp"
#include "operator/api/derived.hpp"
#include "operator/api/names.hpp"
#include "operator/config/node_conf.hpp"
#include "operator/config/partition_options.hpp"
#include "operator/webhook/common_rules.hpp"

namespace bascule::op {

namespace {

constexpr std::size_t kMaxHostname = 63;

bool is_daemon_set(const json::Value& object) {
  return json::string_at(object, {"spec", "scalingMode"}) == "DaemonSet";
}

// What is no number and no percentage is refused when the object is read.
void max_unavailable_rule(const json::Value& object, Findings& findings) {
  const json::Value* given = json::find(object, {"spec", "updateStrategy", "rollingUpdate", "maxUnavailable"});
  if (given == nullptr) return;
  const auto* text = given->if_string();
  const bool zero = text == nullptr ? json::int_at(*given, {}) == 0
                                    : json::view(*text).starts_with('0') &&
                                          json::view(*text).find_first_not_of("0%") == std::string_view::npos;
  if (zero) {
    findings.fault("spec.updateStrategy.rollingUpdate.maxUnavailable",
                   "is {} and would never update a node; use at least 1 or 1%, or updateStrategy.type OnDelete",
                   text == nullptr ? "0" : std::string(json::view(*text)));
  }
}

void schedule_rule(const json::Value& object, Findings& findings) {
  const std::string_view text = json::string_at(object, {"spec", "updateStrategy", "scheduledUpdate", "duration"});
  const auto duration = parse_duration(text);
  if (duration && *duration != Duration::zero() && *duration < std::chrono::minutes(1)) {
    findings.fault("spec.updateStrategy.scheduledUpdate.duration", "{} is too short for a reservation; use at least 1m",
                   quoted(text));
  }
}

void extra_conf_rules(const json::Value& object, Findings& findings) {
  const auto options = parse_node_options(json::string_at(object, {"spec", "extraConf"}));
  if (options) return;
  constexpr std::string_view kField = "spec.extraConf";
  std::string_view sentence = options.error();
  if (sentence.starts_with(kField)) sentence.remove_prefix(kField.size() + 2);
  findings.fault(std::string(kField), "{}", sentence);
}

// slurmctld ends at a line that it cannot read, and then nobody can say any more that no job runs in the partition.
void partition_rules(const json::Value& object, const json::Value* old, Findings& findings) {
  const auto line_of = [](const json::Value& set) {
    return json::bool_at(set, {"spec", "partition", "enabled"})
               ? partition_line(json::string_at(set, {"spec", "partition", "config"}))
               : std::string_view();
  };
  const std::string_view line = line_of(object);
  if (old != nullptr && line_of(*old) == line) return;
  if (const auto fault = partition_fault(line)) {
    findings.fault(
        "spec.partition.config",
        "{}, and slurmctld would not start; an option of a newer Slurm can be had with a PartitionName= line "
        "in the Controller's extraConf",
        *fault);
  }
}

// "gpu-" as in generateName. With `dots` it may have several parts, "rack-1.gpu-".
bool is_hostname_start(std::string_view text, bool dots) {
  constexpr std::size_t kMaxSubdomain = 253;
  if (text.size() > kMaxSubdomain) return false;
  if (text.ends_with('-')) text.remove_suffix(1);
  for (std::size_t dot = text.find('.'); dots && dot != std::string_view::npos; dot = text.find('.')) {
    if (!is_dns_label(text.substr(0, dot))) return false;
    text.remove_prefix(dot + 1);
  }
  return is_dns_label(text);
}

std::size_t digits(std::int64_t number) {
  return std::to_string(std::max<std::int64_t>(number, 0)).size();
}

void hostname_rules(const json::Value& object, Findings& findings) {
  const std::string_view hostname = json::string_at(object, {"spec", "template", "spec", "hostname"});
  const std::int64_t padding = json::int_at(object, {"spec", "ordinalPadding"}).value_or(0);
  // In DaemonSet mode it is no pod's host name, only the Slurm nodes' feature.
  const bool daemon_set = is_daemon_set(object);
  if (!hostname.empty() && !is_hostname_start(hostname, daemon_set)) {
    findings.fault("spec.template.spec.hostname",
                   "{} cannot begin a host name; it is made of lower-case letters, digits{} and '-' and begins with a "
                   "letter or digit, as in gpu-",
                   quoted(hostname), daemon_set ? ", '.'" : "");
    return;
  }
  if (daemon_set) return;
  const std::string_view name = name_of(object);
  if (hostname.empty() && name.size() <= kMaxHostname && !is_dns_label(name)) {
    findings.fault("metadata.name",
                   "{} cannot begin the host names of nodes, which have no dots; set "
                   "spec.template.spec.hostname, or take another name",
                   quoted(name));
  }
  const std::int64_t last = std::max<std::int64_t>(json::int_at(object, {"spec", "replicas"}).value_or(1), 1) - 1;
  const std::size_t number =
      std::max(static_cast<std::size_t>(std::clamp<std::int64_t>(padding, 0, kMaxOrdinalPadding)), digits(last));
  // The pod is called NAME-NUMBER whatever the host name is, and its name is a label's value.
  if (const std::size_t longest = name.size() + 1 + number; longest > kMaxHostname) {
    findings.fault("metadata.name", "with the number of its last node a pod's name has {} characters; {} are possible",
                   longest, kMaxHostname);
  }
  if (const std::size_t longest = hostname.size() + number; !hostname.empty() && longest > kMaxHostname) {
    findings.fault("spec.template.spec.hostname",
                   "with its number a host name would have {} characters; {} are possible", longest, kMaxHostname);
  }
}

void new_name_rules(const json::Value& object, Findings& findings) {
  if (const std::size_t length = name_of(object).size(); length > kMaxHostname) {
    findings.fault("metadata.name", "has {} characters; at most {} are possible, since a label of the pods bears it",
                   length, kMaxHostname);
  }
  const std::string_view controller = json::string_at(object, {"spec", "controllerRef", "name"});
  const std::string service = names::workers(controller);
  if (!controller.empty() && !is_dns_label(service)) {
    findings.fault("spec.controllerRef.name",
                   "no Service can be called {}, which the nodes of the cluster need; it is made of at most {} "
                   "lower-case letters, digits and '-'",
                   quoted(service), kMaxHostname);
  }
}

// What Slurm nodes of a NodeSet are called: `start` and a number below `count`, written with `digits` at least.
struct NodeNames {
  std::string start;
  std::int64_t count = 0;
  std::size_t digits = 0;
};

std::string numbered(std::int64_t number, std::size_t digits) {
  return fmt::format("{:0{}}", number, digits);
}

// nullopt: they are called like Kubernetes' nodes, or it has no name yet.
std::optional<NodeNames> node_names(const json::Value& object) {
  constexpr std::int64_t kMostNodes = 65536;  // of one slurmctld
  if (is_daemon_set(object) || json::bool_at(object, {"spec", "template", "spec", "hostNetwork"})) return std::nullopt;
  NodeNames names;
  names.start = json::string_at(object, {"spec", "template", "spec", "hostname"});
  if (names.start.empty()) names.start = fmt::format("{}-", name_of(object));
  if (names.start == "-") return std::nullopt;
  names.count = std::clamp<std::int64_t>(json::int_at(object, {"spec", "replicas"}).value_or(1), 0, kMostNodes);
  const std::int64_t padding = json::int_at(object, {"spec", "ordinalPadding"}).value_or(0);
  names.digits = static_cast<std::size_t>(std::clamp<std::int64_t>(padding, 0, kMaxOrdinalPadding));
  return names;
}

// A name that both have: "n1" and a number is also "n" and a number.
std::optional<std::string> shared_name(NodeNames a, NodeNames b) {
  if (a.start.size() > b.start.size()) std::swap(a, b);
  if (!b.start.starts_with(a.start)) return std::nullopt;
  const std::string rest = b.start.substr(a.start.size());
  if (!std::ranges::all_of(rest, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  // Whether both write a number alike depends on how many digits it has; of those the smallest is the likeliest to be
  // below both counts. (All up to 65,536 for each NodeSet beside would keep the webhook busy for seconds.)
  for (std::int64_t i = 0; i < b.count; i = i == 0 ? 1 : i * 10) {
    const std::string number = rest + numbered(i, b.digits);
    std::int64_t other = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), other);
    if (error == std::errc() && other < a.count && numbered(other, a.digits) == number) return a.start + number;
  }
  return std::nullopt;
}

// What slurm.conf calls it.
std::string name_in_slurm(const json::Value& object) {
  NodeSet set;
  set.meta.name = name_of(object);
  if (const json::Object* spec = json::object_at(object, {"spec", "template", "spec"})) set.pod_template.spec = *spec;
  return slurm_name(set);
}

bool has_node(const json::Value& object, const std::string& name) {
  const std::optional<NodeNames> names = node_names(object);
  if (!names || !name.starts_with(names->start)) return false;
  std::int64_t number = -1;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + names->start.size(), last, number);
  return error == std::errc() && end == last && number >= 0 && number < names->count &&
         names->start + numbered(number, names->digits) == name;
}

// "NodeSet A like Slurm node N of NodeSet B", of two; empty: neither is.
std::string called_like_a_node(const json::Value& a, const json::Value& b) {
  for (const auto& [set, other] : {std::pair{&a, &b}, {&b, &a}}) {
    const std::string name = name_in_slurm(*set);
    if (has_node(*other, name)) {
      return fmt::format("NodeSet {} like Slurm node {} of NodeSet {}", name_of(*set), name, name_of(*other));
    }
  }
  return {};
}

void node_name_rules(const json::Value& object, const json::Value* old, const Known& known, Findings& findings) {
  const std::optional<NodeNames> names = node_names(object);
  const std::optional<NodeNames> before = old == nullptr ? std::nullopt : node_names(*old);
  for (const json::Value& other : known.node_sets) {
    const bool of_same_cluster = json::string_at(other, {"spec", "controllerRef", "name"}) ==
                                 json::string_at(object, {"spec", "controllerRef", "name"});
    if (!of_same_cluster || name_of(other) == name_of(object)) continue;
    if (json::find(other, {"metadata", "deletionTimestamp"}) != nullptr) continue;
    const std::optional<NodeNames> others = node_names(other);
    const auto shared = names && others ? shared_name(*names, *others) : std::nullopt;
    // One that was let in is not held up by it: it may be on its way out of it.
    if (shared && !(before && shared_name(*before, *others))) {
      findings.fault("spec.template.spec.hostname",
                     "NodeSets {} and {} would both make the Slurm node {}, and Slurm tells nodes apart by their names "
                     "alone; give this one another hostname",
                     name_of(object), name_of(other), *shared);
      return;
    }
    const std::string clash = called_like_a_node(object, other);
    if (!clash.empty() && (old == nullptr || called_like_a_node(*old, other).empty())) {
      findings.fault("spec.template.spec.hostname",
                     "slurm.conf would call {}, with which slurmctld does not start; give this one another hostname",
                     clash);
      return;
    }
  }
}

// What every claim has, said or not.
json::Array bare_claims(const json::Array* list) {
  json::Array claims = list == nullptr ? json::Array() : *list;
  for (json::Value& claim : claims) {
    for (const char* field : {"apiVersion", "kind"}) {
      if (claim.is_object()) claim.get_object().erase(field);
    }
  }
  return claims;
}

// These say something when they are empty: nobody is to make a volume for the claim.
bool bound_alike(const json::Value& a, const json::Value& b) {
  return std::ranges::all_of(std::array{"storageClassName", "selector"}, [&](std::string_view field) {
    const auto said = [field](const json::Value& claim) {
      const json::Value* value = json::find(claim, {"spec", field});
      return value != nullptr && !value->is_null();
    };
    return said(a) == said(b);
  });
}

// By meaning: tools write lists and quantities anew. Absent, null and else empty are the same.
bool same_claims(const json::Array* a, const json::Array* b) {
  const json::Value first = bare_claims(a);
  const json::Value second = bare_claims(b);
  return kube::covers(first, second) && kube::covers(second, first) &&
         std::ranges::equal(first.get_array(), second.get_array(), bound_alike);
}

}  // namespace

void nodeset_rules(const json::Value& object, const json::Value* old, const Known& known, Findings& findings) {
  if (old == nullptr) new_name_rules(object, findings);
  controller_ref_rules(object, old, findings);
  hostname_rules(object, findings);
  if (findings.faults.empty()) node_name_rules(object, old, known, findings);
  max_unavailable_rule(object, findings);
  schedule_rule(object, findings);
  extra_conf_rules(object, findings);
  partition_rules(object, old, findings);
  if (json::bool_at(object, {"spec", "ssh", "enabled"}) &&
      json::string_at(object, {"spec", "ssh", "sssdConfRef", "name"}).empty()) {
    findings.fault("spec.ssh.sssdConfRef.name",
                   "is empty; name the Secret with sssd.conf, or set ssh.enabled to false");
  }
  if (old != nullptr && !same_claims(json::array_at(object, {"spec", "volumeClaimTemplates"}),
                                     json::array_at(*old, {"spec", "volumeClaimTemplates"}))) {
    findings.fault("spec.volumeClaimTemplates",
                   "cannot be changed, since the claims of running nodes would not follow; make a new NodeSet");
  }
}

}  // namespace bascule::op

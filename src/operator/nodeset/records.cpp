#include "operator/nodeset/records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/slurm_node.hpp"

namespace bascule::op::nodeset {

namespace {

// Reads {"key":"text",...}: blanks between tokens, no escapes, since none of our texts needs one.
class FlatReader final {
 public:
  explicit FlatReader(std::string_view text) : text_(text) {}
  bool read(PodRecord& record) {
    if (!take('{')) return false;
    if (take('}')) return at_end();
    do {
      std::string key, value;
      if (!string(key) || !take(':') || !string(value)) return false;
      if (key == "namespace") record.ns = value;
      if (key == "podName") record.pod = value;
      if (key == "node") record.node = value;
      if (key == "nodeSetName") record.nodeset = value;
      if (key == "nodeSetUID") record.nodeset_uid = value;
    } while (take(','));
    return take('}') && at_end();
  }

 private:
  void skip() {
    while (!text_.empty() && std::string_view(" \t\r\n").contains(text_.front())) text_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool at_end() {
    skip();
    return text_.empty();
  }
  bool string(std::string& out) {
    if (!take('"')) return false;
    const std::size_t end = text_.find_first_of("\"\\");
    if (end == std::string_view::npos || text_[end] == '\\') return false;
    out = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return true;
  }
  std::string_view text_;
};

// Why the record may go although its pod is gone just now; nullopt: it may not, or not yet.
std::optional<std::string> prune_reason(const Pass& pass, const SlurmNodeView& node, const PodRecord& record,
                                        bool full) {
  if (pass.spec().deleted) return fmt::format("NodeSet {} is being deleted", pass.spec().name);
  if (!pass.spec().prune_records || !is_defunct(pass.spec(), node)) return std::nullopt;
  if (pass.spec().mode == ScalingMode::kStatefulSet) {
    if (!full) return std::nullopt;
    const bool there = std::ranges::find(pass.state.pods, record.pod, &PodView::name) != pass.state.pods.end();
    return fmt::format("pod {} {}", record.pod, there ? "has another Slurm node now" : "was scaled in");
  }
  if (record.node.empty() || !pass.state.nodes_known) return std::nullopt;
  const auto kube = pass.state.nodes.find(record.node);
  if (kube == pass.state.nodes.end()) return fmt::format("node {} is gone", record.node);
  if (hostname_of(kube->second) == node.name) return std::nullopt;
  return fmt::format("node {} has another hostname now", record.node);
}

}  // namespace

PodRecord record_of(const Spec& spec, const PodView& pod) {
  return {spec.ns, pod.name, pod.node, spec.name, spec.uid.str()};
}

std::string print_record(const PodRecord& record) {
  std::string text =
      fmt::format(R"({{"namespace":"{}","podName":"{}","node":"{}")", record.ns, record.pod, record.node);
  if (!record.nodeset.empty()) text += fmt::format(R"(,"nodeSetName":"{}")", record.nodeset);
  if (!record.nodeset_uid.empty()) text += fmt::format(R"(,"nodeSetUID":"{}")", record.nodeset_uid);
  return text + "}";
}

std::optional<PodRecord> parse_record(std::string_view comment) {
  PodRecord record;
  if (!FlatReader(comment).read(record)) return std::nullopt;
  return record;
}

std::optional<PodRecord> own_record(const Spec& spec, const SlurmNodeView& node) {
  auto record = parse_record(node.comment);
  const bool own = record && record->ns == spec.ns && !record->pod.empty() && record->nodeset == spec.name &&
                   !record->nodeset_uid.empty() && record->nodeset_uid == spec.uid.str();
  return own ? record : std::nullopt;
}

bool is_of_another(const Spec& spec, const PodView& pod, const SlurmNodeView& node) {
  const auto record = parse_record(node.comment);
  if (!record || record->pod.empty() || record->node.empty() || pod.node.empty()) return false;
  return record->ns != spec.ns || record->pod != pod.name || record->node != pod.node;
}

bool is_defunct(const Spec& spec, const SlurmNodeView& node) {
  return !node.name.empty() && node.states.base == slurm::NodeState::kDown &&
         node.states.has(slurm::NodeFlag::kNotResponding) && own_record(spec, node).has_value();
}

bool plan_prune(Pass& pass, bool full) {
  if (!pass.state.slurm.known || (!pass.spec().prune_records && !pass.spec().deleted)) return false;
  bool some_wait = false;
  std::set<std::string> names;
  std::set<std::string> keeps;  // pods whose other names in Slurm, if they had any, are not known to be over
  for (const PodView& pod : pass.state.pods) {
    names.insert(slurm_name_of(pod));
    if (pod.node.empty() || pass.spec().mode == ScalingMode::kDaemonSet) keeps.insert(pod.name);
  }
  for (const auto& [name, node] : pass.state.slurm.nodes) {
    const auto record = own_record(pass.spec(), node);
    if (!record || keeps.contains(record->pod) || names.contains(name) || pass.state.others.contains(name)) continue;
    if (pass.memory.created.contains(record->pod) || is_busy(node)) continue;
    const auto why = prune_reason(pass, node, *record, full);
    if (!why) continue;
    if (node.required_by) {
      pass.plan.waits.push_back(fmt::format(
          "Slurm node {} stays until job {}, which requires it by name, is over: it would end with the node", name,
          node.required_by->value));
      some_wait = true;
      continue;
    }
    pass.plan.events.push_back(
        {false, "DefunctSlurmNodePruned", "Delete",
         fmt::format("Slurm node {} of pod {} on node {} is removed: {}", name, record->pod, record->node, *why), ""});
    pass.plan.act(DeleteSlurmNode{name, node.comment}, *why);
  }
  return some_wait;
}

}  // namespace bascule::op::nodeset

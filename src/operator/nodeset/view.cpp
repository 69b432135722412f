#include "operator/nodeset/view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/duration.hpp"
#include "base/time.hpp"
#include "operator/api/names.hpp"
#include "operator/api/read.hpp"
#include "operator/nodeset/identity.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::op::nodeset {

namespace {

using Text = std::optional<std::string>;

Text text_at(const json::Value& value, json::Path path) {
  const json::Value* found = json::find(value, path);
  if (found == nullptr || !found->is_string()) return std::nullopt;
  return std::string(json::view(found->get_string()));
}

WallTime time_at(const json::Value& value, json::Path path) {
  return parse_rfc3339(json::string_at(value, path)).value_or(WallTime{});
}

PodPhase phase_of(std::string_view text) {
  constexpr std::pair<std::string_view, PodPhase> kPhases[] = {{"Pending", PodPhase::kPending},
                                                               {"Running", PodPhase::kRunning},
                                                               {"Succeeded", PodPhase::kSucceeded},
                                                               {"Failed", PodPhase::kFailed}};
  for (const auto& [word, phase] : kPhases) {
    if (word == text) return phase;
  }
  return text.empty() ? PodPhase::kNone : PodPhase::kUnknown;
}

void read_conditions(const json::Value& pod, PodView& view) {
  const json::Array* conditions = json::array_at(pod, {"status", "conditions"});
  if (conditions == nullptr) return;
  for (const json::Value& condition : *conditions) {
    const std::string_view type = json::string_at(condition, {"type"});
    const bool is_true = json::string_at(condition, {"status"}) == "True";
    if (type == "Ready") {
      view.ready = is_true;
      view.ready_since = time_at(condition, {"lastTransitionTime"});
    } else if (type.starts_with(names::kPodConditionPrefix) && is_true) {
      view.slurm_conditions.push_back({std::string(type), std::string(json::string_at(condition, {"message"})),
                                       time_at(condition, {"lastTransitionTime"})});
    }
  }
}

// The one node that every required term names, as pods of DaemonSet mode have it.
std::string target_node(const json::Value& pod) {
  const json::Array* terms = json::array_at(
      pod, {"spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  if (terms == nullptr) return {};
  std::string target;
  for (const json::Value& term : *terms) {
    std::string named;
    const json::Array* fields = json::array_at(term, {"matchFields"});
    if (fields == nullptr) return {};
    for (const json::Value& field : *fields) {
      const json::Array* values = json::array_at(field, {"values"});
      if (json::string_at(field, {"key"}) != "metadata.name" || json::string_at(field, {"operator"}) != "In" ||
          values == nullptr || values->size() != 1 || !values->front().is_string()) {
        continue;
      }
      named = json::view(values->front().get_string());
    }
    if (named.empty() || (!target.empty() && target != named)) return {};
    target = named;
  }
  return target;
}

void read_worker(const json::Value& pod, WorkerPod& worker) {
  PodView& view = worker.view;
  view.name = worker.meta.key.name;
  view.generate_name = json::string_at(pod, {"metadata", "generateName"});
  view.uid = worker.meta.uid;
  view.terminating = worker.meta.deleted.has_value();
  view.created = worker.meta.created;
  view.hostname = json::string_at(pod, {"spec", "hostname"});
  view.host_network = json::bool_at(pod, {"spec", "hostNetwork"});
  view.node = json::string_at(pod, {"spec", "nodeName"});
  // Nothing bounds it, and a time has an end.
  constexpr std::int64_t kLongest = 365 * 24 * 3600;
  if (const auto grace = json::int_at(pod, {"spec", "terminationGracePeriodSeconds"})) {
    view.grace = std::chrono::seconds(std::clamp<std::int64_t>(*grace, 0, kLongest));
  }
  view.target_node = target_node(pod);
  view.phase = phase_of(json::string_at(pod, {"status", "phase"}));
  read_conditions(pod, view);
  const auto label = [&](std::string_view key) { return text_at(pod, {"metadata", "labels", key}); };
  view.cluster = label(names::kCluster).value_or("");
  view.mode_label = label(names::kScalingMode);
  view.hash_label = label(names::kRevisionHash);
  view.name_label = label(names::kPodName);
  view.index_label = label(names::kPodIndex);
  view.hostname_label = label(names::kPodHostname);
  view.protect_label = label(names::kPodProtect);
  const auto annotation = [&](std::string_view key) { return text_at(pod, {"metadata", "annotations", key}); };
  view.cordon = annotation(names::kPodCordon);
  view.cordon_cause = annotation(names::kPodCordonCause);
  view.deletion_cost = annotation(names::kPodDeletionCost);
  view.deadline = annotation(names::kPodDeadline);
  view.topology = annotation(names::kTopologySpec);
  if (const json::Array* volumes = json::array_at(pod, {"spec", "volumes"})) {
    for (const json::Value& volume : *volumes) {
      const std::string_view claim = json::string_at(volume, {"persistentVolumeClaim", "claimName"});
      if (!claim.empty()) worker.claims.emplace_back(json::string_at(volume, {"name"}), claim);
    }
  }
}

bool is_nodeset(std::string_view api_version, std::string_view kind) {
  return kind == "NodeSet" && api_version.starts_with(fmt::format("{}/", names::kGroup));
}

OwnerView view_owner(const kube::OwnerReference& owner) {
  OwnerView view{OwnerView::Kind::kOther, owner.name.str(), owner.uid, owner.controller};
  if (is_nodeset(owner.api_version, owner.kind)) view.kind = OwnerView::Kind::kNodeSet;
  if (owner.kind == "Pod" && owner.api_version == "v1") view.kind = OwnerView::Kind::kPod;
  return view;
}

json::Value sorted(const json::Value& value) {
  if (const json::Array* list = value.if_array()) {
    json::Array out;
    for (const json::Value& item : *list) out.push_back(sorted(item));
    return out;
  }
  const json::Object* object = value.if_object();
  if (object == nullptr) return value;
  std::map<std::string_view, const json::Value*> fields;
  for (const auto& [key, field] : *object) fields[{key.data(), key.size()}] = &field;
  json::Object out;
  for (const auto& [key, field] : fields) out[key] = sorted(*field);
  return out;
}

}  // namespace

// --- what informers keep ---------------------------------------------------------------------------------------------

std::shared_ptr<const WorkerPod> decode_worker_pod(std::string_view text, json::Interner& interner) {
  auto pod = std::make_shared<WorkerPod>();
  pod->meta = kube::decode_object_meta(text, interner);
  kube::ObjectMeta& meta = pod->meta;
  if (kube::value_or(meta.labels, names::kAppName) == names::kSlurmd.name) {
    pod->set = kube::value_or(meta.labels, names::kAppInstance);
  }
  if (const kube::OwnerReference* owner = meta.controller()) pod->by = *owner;
  if (ordinal_of(meta.key.name) >= 0) pod->stem = meta.key.name.substr(0, meta.key.name.rfind('-'));
  pod->worker = !pod->set.empty() || is_nodeset(pod->by.api_version, pod->by.kind);
  meta.labels = {};
  meta.annotations = {};
  meta.owners = {};
  if (pod->worker) {
    read_worker(json::parse(text), *pod);
  } else {
    pod->view.name = meta.key.name;
    pod->view.uid = meta.uid;
  }
  return pod;
}

std::shared_ptr<const WorkerNode> decode_worker_node(std::string_view text, json::Interner& interner) {
  auto node = std::make_shared<WorkerNode>();
  node->meta = kube::decode_object_meta(text, interner);
  const json::Value value = json::parse(text);
  node->unschedulable = json::bool_at(value, {"spec", "unschedulable"});
  if (const json::Array* taints = json::array_at(value, {"spec", "taints"})) {
    for (const json::Value& taint : *taints) {
      node->taints.push_back({interner(json::string_at(taint, {"key"})), interner(json::string_at(taint, {"value"})),
                              interner(json::string_at(taint, {"effect"}))});
    }
  }
  if (const json::Array* conditions = json::array_at(value, {"status", "conditions"})) {
    for (const json::Value& condition : *conditions) {
      node->conditions.push_back(
          {std::string(json::string_at(condition, {"type"})), std::string(json::string_at(condition, {"reason"})),
           std::string(json::string_at(condition, {"message"})), json::string_at(condition, {"status"}) == "True"});
    }
  }
  return node;
}

bool looks_same(const WorkerNode& a, const WorkerNode& b) {
  const auto same = [](const NodeView::Condition& x, const NodeView::Condition& y) {
    return x.type == y.type && x.is_true == y.is_true && x.reason == y.reason && x.message == y.message;
  };
  return a.meta.uid == b.meta.uid && a.unschedulable == b.unschedulable && a.taints == b.taints &&
         a.meta.labels == b.meta.labels && a.meta.annotations == b.meta.annotations &&
         std::ranges::equal(a.conditions, b.conditions, same);
}

std::shared_ptr<const ClaimObject> decode_claim(std::string_view text, json::Interner& interner) {
  auto claim = std::make_shared<ClaimObject>();
  claim->meta = kube::decode_object_meta(text, interner);
  for (const kube::OwnerReference& owner : claim->meta.owners) claim->owners.push_back(view_owner(owner));
  return claim;
}

// --- values ----------------------------------------------------------------------------------------------------------

Spec view_spec(const NodeSet& set, std::vector<std::string> propagated_conditions) {
  Spec spec;
  spec.ns = set.meta.ns;
  spec.name = set.meta.name;
  spec.uid = Uid(set.meta.uid);
  spec.controller = set.controller;
  spec.generation = set.meta.generation;
  spec.deleted = set.meta.deleted;
  const auto has = [&](std::string_view name) {
    return std::ranges::find(set.meta.finalizers, name) != set.meta.finalizers.end();
  };
  spec.has_drain_finalizer = has(names::kDrainFinalizer);
  spec.has_reservation_finalizer = has(names::kReservationFinalizer);
  spec.orphans = spec.deleted && has(names::kOrphanFinalizer);
  const bool daemon = set.scaling_mode == op::ScalingMode::kDaemonSet;
  spec.mode = daemon ? ScalingMode::kDaemonSet : ScalingMode::kStatefulSet;
  spec.replicas = static_cast<std::int32_t>(set.replicas);
  if (set.update == op::UpdateType::kOnDelete) spec.update = UpdateType::kOnDelete;
  if (set.update == op::UpdateType::kScheduledUpdate) spec.update = UpdateType::kScheduledUpdate;
  spec.max_unavailable = {set.max_unavailable.value, set.max_unavailable.percent, true};
  if (set.scheduled.start) spec.scheduled = {*set.scheduled.start, set.scheduled.duration, set.scheduled.flags};
  spec.history_limit = static_cast<std::int32_t>(set.revision_history_limit);
  if (set.when_scaled == op::Retention::kDelete) spec.when_scaled = Retention::kDelete;
  if (set.when_deleted == op::Retention::kDelete) spec.when_deleted = Retention::kDelete;
  spec.min_ready = std::chrono::seconds(set.min_ready_seconds);
  spec.padding = static_cast<std::uint32_t>(set.ordinal_padding);
  spec.pin_to_node = set.pin_to_node;
  spec.protect = set.protect;
  spec.prune_records = set.prune == Prune::kNodeNotFound;
  const auto limit = set.meta.annotations.find(std::string(names::kDrainLimit));
  if (limit != set.meta.annotations.end()) {
    spec.drain_limit = parse_duration(limit->second);
    if (spec.drain_limit && *spec.drain_limit < Duration{}) spec.drain_limit.reset();
    // Nobody mends one that is deleted: it waits for its jobs without a limit.
    if (!spec.drain_limit && !spec.deleted) {
      const std::string object = fmt::format("NodeSet {}/{}", spec.ns, spec.name);
      const std::string field = fmt::format("metadata.annotations[{}]", names::kDrainLimit);
      throw BadObject(object, field,
                      fmt::format("{}: {} is \"{}\"; it must be a duration as in 2h30m", object, field, limit->second));
    }
  }
  const std::string_view hostname = set.pod_template.text("hostname");
  if (hostname.find_first_not_of(" \t\r\n") != std::string_view::npos) spec.template_hostname = hostname;
  spec.host_network = json::bool_at(set.pod_template.spec, {"hostNetwork"});
  for (const json::Value& claim : set.volume_claim_templates) {
    spec.claim_templates.emplace_back(json::string_at(claim, {"metadata", "name"}));
  }
  spec.propagated_conditions = std::move(propagated_conditions);
  return spec;
}

PodView view_pod(const WorkerPod& pod, const Spec& spec) {
  PodView view = pod.view;
  view.selected = pod.set == spec.name;
  view.owner = Owner::kOther;
  if (pod.by.uid.empty()) {
    view.owner = Owner::kNone;
  } else if (pod.by.uid == spec.uid && is_nodeset(pod.by.api_version, pod.by.kind)) {
    view.owner = Owner::kUs;
  }
  for (const auto& [volume, claim] : pod.claims) {
    if (std::ranges::find(spec.claim_templates, volume) != spec.claim_templates.end()) view.claims[volume] = claim;
  }
  return view;
}

ClaimView view_claim(const ClaimObject& claim, std::string_view nodeset) {
  ClaimView view{claim.meta.key.name, claim.meta.deleted.has_value(), claim.owners};
  for (OwnerView& owner : view.owners) {
    if (owner.kind == OwnerView::Kind::kNodeSet && owner.name != nodeset) owner.kind = OwnerView::Kind::kOther;
  }
  return view;
}

RevisionView view_revision(const kube::DynamicObject& revision, const Uid& nodeset) {
  RevisionView view;
  view.name = revision.meta.key.name;
  view.hash_label = text_at(revision.value, {"metadata", "labels", names::kRevisionHash});
  view.revision = json::int_at(revision.value, {"revision"}).value_or(0);
  view.template_hash = text_at(revision.value, {"metadata", "annotations", names::kTemplateHash});
  if (const json::Value* data = json::find(revision.value, {"data"})) view.data = canonical_text(*data);
  view.created = revision.meta.created;
  const kube::OwnerReference* owner = revision.meta.controller();
  if (owner == nullptr) {
    view.owner = Owner::kNone;
  } else if (owner->uid != nodeset) {
    view.owner = Owner::kOther;
  }
  return view;
}

SlurmNodeView view_slurm_node(const slurm::Node& node, const Work* work) {
  SlurmNodeView view;
  view.name = node.name;
  view.states = node.states;
  view.reason = node.reason;
  view.reason_since = WallTime(std::chrono::seconds(node.reason_time));
  view.comment = node.comment;
  view.topology = node.topology;
  view.features = node.features;
  view.active_features = node.active_features;
  view.reservation = node.reservation;
  if (work != nullptr) {
    view.has_jobs = work->has_jobs;
    view.deadline = work->deadline;
    view.jobs = work->jobs;
  }
  return view;
}

ReservationView view_reservation(const slurm::Reservation& reservation) {
  ReservationView view;
  view.start = WallTime(std::chrono::seconds(reservation.start_time));
  view.end = WallTime(std::chrono::seconds(reservation.end_time));
  view.flags = reservation.flags;
  if (auto nodes = slurm::expand_hostlist(reservation.nodes)) view.nodes = std::move(*nodes);
  view.users = reservation.users;
  return view;
}

std::string canonical_text(const json::Value& value) {
  return json::dump(sorted(value));
}

}  // namespace bascule::op::nodeset

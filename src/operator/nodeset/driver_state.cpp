#include "operator/nodeset/driver_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/base64.hpp"
#include "base/log.hpp"
#include "operator/api/names.hpp"
#include "operator/api/read.hpp"
#include "operator/api/reasons.hpp"
#include "operator/builders/slurm_key.hpp"
#include "operator/config/hash.hpp"
#include "operator/config/node_conf.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/perform.hpp"
#include "operator/nodeset/records.hpp"
#include "operator/nodeset/scale.hpp"

namespace bascule::op::nodeset {

namespace {

using namespace std::chrono_literals;

// Indexes of worker pods; claims are found by kByStem, revisions by kBySet.
constexpr const char* kBySet = "set";      // NAMESPACE/NODESET, by labels
constexpr const char* kByOwner = "owner";  // uid
constexpr const char* kByStem = "stem";    // NAMESPACE/name without its number
constexpr const char* kByNode = "node";    // Kubernetes node
constexpr const char* kBySlurm = "slurm";  // NAMESPACE/Slurm node

std::string in_ns(const kube::ObjectMeta& meta, std::string_view name) {
  return fmt::format("{}/{}", meta.key.ns, name);
}

void index_pods(kube::Informer<WorkerPod>& pods) {
  pods.add_index(kBySet, [](const WorkerPod& pod, std::vector<std::string>& values) {
    if (!pod.set.empty()) values.push_back(in_ns(pod.meta, pod.set));
  });
  pods.add_index(kByOwner, [](const WorkerPod& pod, std::vector<std::string>& values) {
    if (pod.worker && !pod.by.uid.empty()) values.push_back(pod.by.uid.str());
  });
  pods.add_index(kByStem, [](const WorkerPod& pod, std::vector<std::string>& values) {
    if (!pod.stem.empty()) values.push_back(in_ns(pod.meta, pod.stem));
  });
  pods.add_index(kByNode, [](const WorkerPod& pod, std::vector<std::string>& values) {
    if (pod.worker && !pod.view.node.empty()) values.push_back(pod.view.node);
  });
  pods.add_index(kBySlurm, [](const WorkerPod& pod, std::vector<std::string>& values) {
    if (!pod.worker) return;
    if (const std::string name = slurm_name_of(pod.view); !name.empty()) values.push_back(in_ns(pod.meta, name));
  });
}

// The part of a job that work_of() reads.
slurm::Job brief(const slurm::Job& job) {
  slurm::Job out;
  out.id = job.id;
  out.states = job.states;
  out.nodes = job.nodes;
  out.time_limit = job.time_limit;
  out.start_time = job.start_time;
  return out;
}

// What the newest revision says, that of status before others.
const RevisionView* last_revision(const State& state) {
  const RevisionView* best = nullptr;
  for (const RevisionView& revision : state.revisions) {
    if (revision.owner != Owner::kUs) continue;
    if (!state.status.hash.empty() && revision.hash_label == state.status.hash) return &revision;
    if (best == nullptr || revision.revision > best->revision) best = &revision;
  }
  return best;
}

}  // namespace

Views::Views(const NodeSetDriver::Parts& parts, const NodeSetDriver::Options& options, json::Interner& interner)
    : pods(parts.kube, {.resource = kube::resources::kPods, .ns = options.ns, .seed = options.seed}, decode_worker_pod,
           interner),
      nodes(parts.kube, {.resource = kube::resources::kNodes, .seed = options.seed}, decode_worker_node, interner),
      claims(parts.kube, {.resource = kClaims, .ns = options.ns, .seed = options.seed}, decode_claim, interner),
      revisions(parts.kube,
                {.resource = kRevisions,
                 .ns = options.ns,
                 .selectors = {.labels = fmt::format("{}={}", names::kAppName, names::kSlurmd.name)},
                 .seed = options.seed},
                kube::decode_dynamic, interner),
      parts_(parts),
      options_(options),
      loop_(parts.kube.loop()) {
  index_pods(pods);
  // TEMPLATE-NODESET-SUFFIX: any part may have dashes of its own.
  claims.add_index(kByStem, [](const ClaimObject& claim, std::vector<std::string>& values) {
    const std::string_view name = claim.meta.key.name;
    for (auto dash = name.find('-'); dash != std::string_view::npos; dash = name.find('-', dash + 1)) {
      values.push_back(in_ns(claim.meta, name.substr(0, dash)));
    }
  });
  revisions.add_index(kBySet, [](const kube::DynamicObject& revision, auto& values) {
    values.push_back(in_ns(revision.meta, kube::value_or(revision.meta.labels, names::kAppInstance)));
  });
}

NamespacedName Views::controller_of(const kube::DynamicObject& nodeset) {
  return {nodeset.meta.key.ns, std::string(json::string_at(nodeset.value, {"spec", "controllerRef", "name"}))};
}

// --- whose NodeSet something is --------------------------------------------------------------------------------------

void Views::use_if_there(NamespacedName key, const Use& use) const {
  if (parts_.nodesets.get(key)) use(key);
}

void Views::sets_of(const WorkerPod& pod, const Use& use) const {
  std::set<std::string> names{pod.set, pod.stem};
  if (pod.worker) names.insert(pod.by.name.str());
  for (const std::string& name : names) {
    if (!name.empty()) use_if_there({pod.meta.key.ns, name}, use);
  }
}

void Views::sets_on_node(const std::string& node, const Use& use) const {
  for (const PodPtr& pod : pods.by_index(kByNode, node)) sets_of(*pod, use);
}

void Views::sets_of_slurm_name(const std::string& ns, const std::string& name, const Use& use) const {
  for (const PodPtr& pod : pods.by_index(kBySlurm, fmt::format("{}/{}", ns, name))) sets_of(*pod, use);
}

void Views::sets_of_slurm_node(const NamespacedName& controller, const slurm::Node& node, const Use& use) const {
  sets_of_slurm_name(controller.ns, node.name, use);
  if (const auto record = parse_record(node.comment)) {
    if (!record->nodeset.empty()) use_if_there({record->ns, record->nodeset}, use);
  }
}

void Views::sets_of_claim(const ClaimObject& claim, const Use& use) const {
  parts_.nodesets.for_each([&](const ObjectPtr& nodeset) {
    if (nodeset->meta.key.ns != claim.meta.key.ns) return;
    const json::Array* templates = json::array_at(nodeset->value, {"spec", "volumeClaimTemplates"});
    if (templates == nullptr || templates->empty()) return;
    if (claim.meta.key.name.find(fmt::format("-{}-", nodeset->meta.key.name)) != std::string::npos) {
      use(nodeset->meta.key);
    }
  });
}

void Views::sets_of_controller(const NamespacedName& controller, const Use& use) const {
  parts_.nodesets.for_each([&](const ObjectPtr& nodeset) {
    if (controller_of(*nodeset) == controller) use(nodeset->meta.key);
  });
}

void Views::sets_of_secret(const NamespacedName& secret, const Use& use) const {
  parts_.nodesets.for_each([&](const ObjectPtr& nodeset) {
    if (nodeset->meta.key.ns != secret.ns) return;
    const ObjectPtr controller = parts_.controllers.get(controller_of(*nodeset));
    const bool sssd = json::string_at(nodeset->value, {"spec", "ssh", "sssdConfRef", "name"}) == secret.name;
    if (sssd || (controller && json::string_at(controller->value, {"spec", "slurmKeyRef", "name"}) == secret.name)) {
      use(nodeset->meta.key);
    }
  });
}

void Views::daemon_sets(const Use& use) const {
  parts_.nodesets.for_each([&](const ObjectPtr& nodeset) {
    if (json::string_at(nodeset->value, {"spec", "scalingMode"}) == "DaemonSet") use(nodeset->meta.key);
  });
}

// --- the state of one ------------------------------------------------------------------------------------------------

void Views::read_bad(const ObjectPtr& nodeset, std::string fault, Reading& to) const {
  to.object = nodeset;
  to.planable = false;
  to.trouble = std::move(fault);
  to.reason = reasons::kBadSpec;
  if (const json::Value* status = json::find(nodeset->value, {"status"})) to.set.status = *status;
  to.state.status = view_status(to.set.status);
  to.state.spec.ns = nodeset->meta.key.ns;
  to.state.spec.name = nodeset->meta.key.name;
  to.state.spec.uid = nodeset->meta.uid;
  to.state.spec.generation = nodeset->meta.generation;
  to.state.spec.deleted = nodeset->meta.deleted;
  if (!nodeset->meta.deleted) return;
  // It goes with its Controller all the same.
  to.set.meta.ns = nodeset->meta.key.ns;
  to.set.meta.name = nodeset->meta.key.name;
  to.set.meta.uid = nodeset->meta.uid.str();
  for (const auto& finalizer : nodeset->meta.finalizers) {
    to.set.meta.finalizers.emplace_back(finalizer);
    if (finalizer == names::kDrainFinalizer) to.state.spec.has_drain_finalizer = true;
    if (finalizer == names::kReservationFinalizer) to.state.spec.has_reservation_finalizer = true;
    if (finalizer == names::kOrphanFinalizer) to.state.spec.orphans = true;
  }
  if (!parts_.controllers.get(controller_of(*nodeset))) to.state.controller = Presence::kGone;
}

void Views::read(const ObjectPtr& nodeset, Reading& to) {
  to.object = nodeset;
  to.set = read_nodeset(nodeset->value);
  State& state = to.state;
  state.spec = view_spec(to.set, options_.propagated_conditions);
  state.status = view_status(to.set.status);
  read_revisions(to);
  read_template(to);
  read_pods(to);
  read_claims(to);
  read_slurm(to);
  read_others(to);
}

// Without a whole template no pod is made and none replaced: a Secret that is away for a moment must not look like a
// new revision.
void Views::read_template(Reading& to) const {
  const ObjectPtr object = parts_.controllers.get(controller_of(*to.object));
  State& state = to.state;
  state.controller = object ? Presence::kPresent : Presence::kGone;
  std::optional<json::Value> made;
  if (object) {
    try {
      to.controller = read_controller(object->value);
      WorkerInput input{.set = to.set,
                        .controller = *to.controller,
                        .domain = options_.domain,
                        .slurm_key_hash = {},
                        .sssd_hash = {}};
      const auto slurm_key = secret_hash(to.set, to.controller->keys.slurm, to.trouble);
      const auto sssd = to.set.ssh.enabled ? secret_hash(to.set, to.set.ssh.sssd, to.trouble) : std::string();
      if (slurm_key && sssd) {
        const ObjectPtr slurmctld =
            parts_.stateful_sets.get({to.set.meta.ns, names::controller(to.controller->meta.name)});
        KeyInUse key = key_in_use(*to.controller, slurmctld ? &slurmctld->value : nullptr, *slurm_key);
        input.slurm_key_hash = std::move(key.hash);
        to.controller->keys.slurm = std::move(key.ref);  // `input` looks there
        input.sssd_hash = *sssd;
        made = worker_template(input);
        state.template_hash = sha256_hex(canonical_text(worker_revision(input, *made)));
        to.input.emplace(input);
        if (auto fault = node_conf(to.set).fault) to.trouble = *std::move(fault);
        if (to.trouble.empty()) to.trouble = to.set.max_unavailable_fault;
      }
    } catch (const BadObject& error) {
      to.trouble = error.what();
    }
  } else {
    to.trouble = fmt::format("Controller {} does not exist: pods are left as they are, none is made and none removed",
                             controller_of(*to.object).str());
  }
  if (!made) state.template_hash.clear();
  if (made) {
    state.template_data = canonical_text(*made);
    read_nodes(to, Placement(*json::find(*made, {"spec"})));
    return;
  }
  if (object) state.controller = Presence::kUnknown;
  const RevisionView* last = last_revision(state);
  to.planable = last != nullptr || state.spec.deleted;
  if (last != nullptr) state.template_data = last->data;
  read_nodes(to, Placement(to.set.pod_template.spec));
}

std::optional<std::string> Views::secret_hash(const NodeSet& set, const KeyRef& ref, std::string& fault) const {
  if (ref.empty()) return std::string();
  const auto secret = parts_.secrets.get({set.meta.ns, ref.name});
  std::optional<std::string> value;
  if (secret) value = base64_decode(json::string_at(secret->value, {"data", ref.key}));
  if (value && !value->empty()) return sha256_hex(*value);
  fault = fmt::format("Secret {}/{} with key {} is {}", set.meta.ns, ref.name, ref.key,
                      secret ? "there, but not the key" : "not there");
  return std::nullopt;
}

void Views::read_pods(Reading& to) const {
  const Spec& spec = to.state.spec;
  const std::string name = fmt::format("{}/{}", spec.ns, spec.name);
  for (const auto& [index, value] :
       {std::pair<const char*, std::string>{kBySet, name}, {kByOwner, spec.uid.str()}, {kByStem, name}}) {
    for (PodPtr& pod : pods.by_index(index, value)) {
      if (pod->meta.key.ns == spec.ns) to.pods.emplace(pod->meta.key.name, std::move(pod));
    }
  }
  for (const auto& [key, pod] : to.pods) to.state.pods.push_back(view_pod(*pod, spec));
}

void Views::read_others(Reading& to) const {
  State& state = to.state;
  const Spec& spec = state.spec;
  const auto look = [&](const std::string& name) {
    if (name.empty()) return;
    for (const PodPtr& pod : pods.by_index(kBySlurm, fmt::format("{}/{}", spec.ns, name))) {
      if (pod->by.uid == spec.uid || pod->view.terminal()) continue;
      const ObjectPtr set = parts_.nodesets.get({spec.ns, pod->by.name.str()});
      if (!set || set->meta.uid != pod->by.uid || controller_of(*set) != controller_of(*to.object)) continue;
      const OtherPod other{set->meta.key.name, pod->view.name, pod->view.created, pod->view.uid};
      const auto [known, added] = state.others.try_emplace(name, other);
      if (!added && std::tie(other.created, other.uid) < std::tie(known->second.created, known->second.uid)) {
        known->second = other;
      }
    }
  };
  for (const auto& [name, node] : state.slurm.nodes) look(name);
  std::int32_t live = 0;
  for (const PodView& pod : state.pods) {
    look(slurm_name_of(pod));
    if (pod.owner == Owner::kUs && !pod.terminating) ++live;
  }
  if (spec.mode == ScalingMode::kDaemonSet) {
    for (const auto& [name, node] : state.nodes) {
      if (run_on(node).should_run) look(hostname_of(node));
    }
  } else if (!spec.host_network && live < spec.replicas) {
    const auto most = spec.replicas + static_cast<std::int32_t>(state.pods.size());
    for (std::int32_t ordinal = 0; ordinal < most; ++ordinal) look(hostname_of(spec, ordinal));
  }
}

void Views::read_nodes(Reading& to, const Placement& placement) const {
  State& state = to.state;
  state.nodes_known = nodes.synced();
  const auto take = [&](const std::string& name) {
    if (name.empty() || state.nodes.contains(name)) return;
    if (const auto node = nodes.get({"", name})) state.nodes.emplace(name, placement.view_node(*node));
  };
  if (state.spec.mode == ScalingMode::kDaemonSet) {
    nodes.for_each([&](const auto& node) { state.nodes.emplace(node->meta.key.name, placement.view_node(*node)); });
    return;
  }
  // Others are of no concern to pods that go where the scheduler likes.
  const std::string name = fmt::format("{}/{}", state.spec.ns, state.spec.name);
  for (const PodPtr& pod : pods.by_index(kBySet, name)) take(pod->view.node);
  for (const PodPtr& pod : pods.by_index(kByOwner, state.spec.uid.str())) take(pod->view.node);
  for (const auto& [ordinal, node] : state.status.ordinal_to_node) take(node);
}

void Views::read_claims(Reading& to) const {
  const Spec& spec = to.state.spec;
  if (spec.claim_templates.empty()) return;
  for (const std::string& name : spec.claim_templates) {
    for (const auto& claim : claims.by_index(kByStem, fmt::format("{}/{}-{}", spec.ns, name, spec.name))) {
      to.state.claims.emplace(claim->meta.key.name, view_claim(*claim, spec.name));
    }
  }
}

void Views::read_revisions(Reading& to) const {
  const Spec& spec = to.state.spec;
  for (const ObjectPtr& revision : revisions.by_index(kBySet, fmt::format("{}/{}", spec.ns, spec.name))) {
    to.state.revisions.push_back(view_revision(*revision, spec.uid));
  }
}

std::shared_ptr<const Works> Views::works_of(const ClusterPtr& cluster) {
  std::shared_ptr<const Works>& works = works_[cluster->controller()];
  if (works) return works;
  std::vector<slurm::Job> jobs;
  for (const auto& [id, job] : cluster->mirror().jobs()) {
    if (!job->nodes.empty() && (!job->states.ended() || job->states.has(slurm::JobFlag::kCompleting))) {
      jobs.push_back(brief(*job));
    }
  }
  works = std::make_shared<const Works>(nodeset::work_of(jobs));
  for (const std::string& fault : works->faults) {
    log::limited(log::Level::kWarning, 60s, "job not taken into account", {{"why", fault}});
  }
  return works;
}

void Views::read_slurm(Reading& to) {
  const NamespacedName controller = controller_of(*to.object);
  SlurmView& slurm = to.state.slurm;
  to.cluster = parts_.clusters.find(controller);
  if (!to.cluster) {
    slurm.why = parts_.clusters.why_none(controller);
    return;
  }
  const slurm::ClusterMirror& mirror = to.cluster->mirror();
  slurm.known = to.cluster->known();
  slurm.why = to.cluster->why_unknown();
  if (!slurm.known) return;
  to.works = works_of(to.cluster);
  slurm.as_of = loop_.wall() - (loop_.now() - mirror.nodes_as_of());
  const auto take = [&](const slurm::Node& node) {
    const auto work = to.works->nodes.find(node.name);
    slurm.nodes.try_emplace(node.name, view_slurm_node(node, work == to.works->nodes.end() ? nullptr : &work->second));
  };
  for (const PodView& pod : to.state.pods) {
    if (const auto node = mirror.node(slurm_name_of(pod))) take(*node);
  }
  if (!to.state.spec.prune_records && !to.state.spec.deleted) return;
  const std::string mark = fmt::format("\"nodeSetUID\":\"{}\"", to.state.spec.uid.str());
  for (const auto& [name, node] : mirror.nodes()) {
    if (slurm.nodes.contains(name) || node->comment.find(mark) == std::string::npos) continue;
    take(*node);
    slurm.nodes.at(name).required_by = mirror.job_that_requires(name);
  }
}

}  // namespace bascule::op::nodeset

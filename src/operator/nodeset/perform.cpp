#include "operator/nodeset/perform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/log.hpp"
#include "base/time.hpp"
#include "operator/api/derived.hpp"
#include "operator/api/names.hpp"
#include "operator/api/read.hpp"
#include "operator/builders/object.hpp"
#include "operator/nodeset/identity.hpp"

namespace bascule::op::nodeset {

namespace {

namespace r = kube::resources;
using kube::PatchType;

const Performed kStaleUid{Outcome::kStale, "another object has its name now"};
const Performed kLeadsNoLonger{Outcome::kStale, "this process does not lead any longer"};

json::Object uid_patch(const Uid& uid) {
  return {{"metadata", json::Object{{"uid", uid.str()}}}};
}

json::Object changes(const std::map<std::string, std::optional<std::string>>& from) {
  json::Object to;
  for (const auto& [key, value] : from) to[key] = value ? json::Value(*value) : json::Value(nullptr);
  return to;
}

// What an exception means for an action. Called inside a handler.
Performed outcome_of_current() {
  try {
    throw;
  } catch (const kube::Conflict& error) {
    return {Outcome::kStale, error.what()};
  } catch (const kube::NotFound& error) {
    return {Outcome::kStale, error.what()};
  } catch (const kube::Unreachable& error) {
    return {error.may_have_happened ? Outcome::kMaybe : Outcome::kFailed, error.what()};
  } catch (const kube::ServerError& error) {
    return {Outcome::kMaybe, error.what()};
  } catch (const kube::Malformed& error) {
    return {Outcome::kMaybe, error.what()};
  } catch (const kube::Error& error) {
    return {Outcome::kFailed, error.what()};
  } catch (const slurm::NotFound& error) {
    return {Outcome::kStale, error.what()};
  } catch (const slurm::Unreachable& error) {
    return {error.surely_not_done ? Outcome::kFailed : Outcome::kMaybe, error.what()};
  } catch (const slurm::Malformed& error) {
    return {Outcome::kMaybe, error.what()};
  } catch (const net::Error& error) {
    if (error.kind() == net::Error::Kind::kStopped) throw;
    return {error.surely_not_sent() ? Outcome::kFailed : Outcome::kMaybe, error.what()};
  } catch (const std::exception& error) {
    return {Outcome::kFailed, error.what()};
  }
}

Performed no_slurm() {
  return {Outcome::kFailed, "there is no Slurm cluster"};
}

bool is_busy_base(slurm::NodeState state) {
  return state == slurm::NodeState::kAllocated || state == slurm::NodeState::kMixed;
}

}  // namespace

json::Value make_pod(const WorkerInput& input, const CreatePod& what, const std::optional<std::string>& topology) {
  WorkerIdentity identity;
  identity.name = what.name;
  identity.hostname = what.hostname;
  identity.revision = what.hash;
  const auto index = what.labels.find(std::string(names::kPodIndex));
  if (index != what.labels.end()) identity.index = index->second;
  identity.node = what.only_node ? *what.only_node : what.pin_node.value_or("");
  identity.topology = topology.value_or("");
  json::Value pod = worker_pod(input, identity);
  if (!what.generate_name.empty()) json::at_or_create(pod, {"metadata", "generateName"}) = what.generate_name;
  for (const auto& [label, value] : what.labels) json::at_or_create(pod, {"metadata", "labels", label}) = value;
  // A claim of another padding may be there already.
  if (json::Value* volumes = json::find(pod, {"spec", "volumes"}); volumes != nullptr && volumes->is_array()) {
    for (json::Value& volume : volumes->get_array()) {
      const auto claim = what.claims.find(std::string(json::string_at(volume, {"name"})));
      json::Value* name = json::find(volume, {"persistentVolumeClaim", "claimName"});
      if (claim != what.claims.end() && name != nullptr) *name = claim->second;
    }
  }
  return pod;
}

json::Object Performer::owner() const {
  return owner_reference(subject(parts_.set));
}

Task<Performed> Performer::perform(Action action, std::stop_token stop) {
  Performed result;
  try {
    result = co_await std::visit([&](auto& what) { return run(std::move(what), stop); }, action.what);
  } catch (...) {
    result = outcome_of_current();
  }
  co_return result;
}

// --- pods ------------------------------------------------------------------------------------------------------------

// The API server's own word: the NodeSet is this one, and stays.
Task<bool> Performer::still_ours(std::stop_token stop) {
  const json::Value live = co_await parts_.kube.get(kNodeSets, key(parts_.set.meta.name), {}, stop);
  co_return json::string_at(live, {"metadata", "uid"}) ==
      parts_.set.meta.uid&& json::find(live, {"metadata", "deletionTimestamp"}) == nullptr;
}

Task<Performed> Performer::run(AdoptPod what, std::stop_token stop) {
  const bool ours = co_await still_ours(stop);
  if (!ours) co_return Performed{Outcome::kStale, "the NodeSet is another one or goes"};
  if (!parts_.may_act()) co_return kLeadsNoLonger;
  json::Value patch = uid_patch(what.uid);
  json::at_or_create(patch, {"metadata", "ownerReferences"}) = json::Array{owner()};
  co_await parts_.kube.patch(r::kPods, key(what.name), PatchType::kStrategic, std::move(patch), {}, {}, stop);
  co_return Performed{};
}

Task<Performed> Performer::run(ReleasePod what, std::stop_token stop) {
  json::Value patch = uid_patch(what.uid);
  json::at_or_create(patch, {"metadata", "ownerReferences"}) =
      json::Array{json::Object{{"$patch", "delete"}, {"uid", parts_.set.meta.uid}}};
  co_await parts_.kube.patch(r::kPods, key(what.name), PatchType::kStrategic, std::move(patch), {}, {}, stop);
  co_return Performed{};
}

Task<Performed> Performer::run(CreatePod what, std::stop_token stop) {
  if (parts_.input == nullptr) co_return Performed{Outcome::kFailed, "the Controller is not known"};
  std::optional<std::string> topology;
  const auto node = parts_.state.nodes.find(what.only_node ? *what.only_node : what.pin_node.value_or(""));
  if (node != parts_.state.nodes.end()) topology = node->second.topology;
  co_return co_await make(r::kPods, make_pod(*parts_.input, what, topology), stop);
}

// One that is there already was made by a call whose answer was lost, or is somebody else's: the informer will show it.
Task<Performed> Performer::make(const kube::Resource& resource, json::Value object, std::stop_token stop) {
  try {
    co_await parts_.kube.create(resource, parts_.set.meta.ns, std::move(object), {}, stop);
  } catch (const kube::AlreadyExists& error) {
    log::info("already there", {{"why", error}});
  }
  co_return Performed{};
}

Task<Performed> Performer::run(PatchPod what, std::stop_token stop) {
  json::Value patch = uid_patch(what.uid);
  if (!what.labels.empty()) json::at_or_create(patch, {"metadata", "labels"}) = changes(what.labels);
  if (!what.annotations.empty()) json::at_or_create(patch, {"metadata", "annotations"}) = changes(what.annotations);
  co_await parts_.kube.patch(r::kPods, key(what.name), PatchType::kMerge, std::move(patch), {}, {}, stop);
  co_return Performed{};
}

Task<Performed> Performer::run(SetPodConditions what, std::stop_token stop) {
  json::Array items;
  for (const PodCondition& condition : what.conditions) {
    items.push_back(json::Object{{"type", condition.type},
                                 {"status", "True"},
                                 {"message", condition.message},
                                 {"lastTransitionTime", print_rfc3339(condition.since)}});
  }
  const auto pod = std::ranges::find(parts_.state.pods, what.uid, &PodView::uid);
  if (pod != parts_.state.pods.end()) {
    for (const PodCondition& had : pod->slurm_conditions) {
      if (std::ranges::find(what.conditions, had.type, &PodCondition::type) != what.conditions.end()) continue;
      items.push_back(json::Object{{"$patch", "delete"}, {"type", had.type}});
    }
  }
  json::Value patch = uid_patch(what.uid);
  json::at_or_create(patch, {"status", "conditions"}) = std::move(items);
  co_await parts_.kube.patch(r::kPods, key(what.name), PatchType::kStrategic, std::move(patch), "status", {}, stop);
  co_return Performed{};
}

Task<Performed> Performer::run(DeletePod what, std::stop_token stop) {
  kube::DeleteOptions options;
  options.uid = what.uid;
  if (what.before == Before::kUnbound) {
    const kube::ObjectMeta* meta = parts_.pod(what.name);
    if (meta == nullptr || meta->uid != what.uid) co_return kStaleUid;
    options.resource_version = meta->resource_version;
  }
  if (what.before == Before::kSlurmIsClear || what.before == Before::kSlurmIsIdle) {
    if (!parts_.cluster) co_return no_slurm();
    const std::optional<SlurmNodeView> fresh = co_await look(what.slurm_node, stop);
    if (!may_delete(what, fresh ? &*fresh : nullptr)) {
      co_return Performed{Outcome::kStale, fmt::format("Slurm node {} is not clear of jobs at this moment: {}",
                                                       what.slurm_node, slurm::print(fresh->states))};
    }
    if (!parts_.may_act()) co_return kLeadsNoLonger;
  }
  co_await parts_.kube.remove(r::kPods, key(what.name), options, stop);
  co_return Performed{};
}

// --- claims ----------------------------------------------------------------------------------------------------------

Task<Performed> Performer::run(CreateClaim what, std::stop_token stop) {
  for (json::Value& claim : worker_claims(parts_.set, "0")) {
    json::Value& name = json::at_or_create(claim, {"metadata", "name"});
    if (json::string_at(claim, {"metadata", "name"}) != worker_claim_name(parts_.set, what.claim_template, "0")) {
      continue;
    }
    name = what.name;
    co_return co_await make(kClaims, std::move(claim), stop);
  }
  co_return Performed{Outcome::kStale, fmt::format("there is no claim template {}", what.claim_template)};
}

Task<Performed> Performer::run(PatchClaimOwners what, std::stop_token stop) {
  const json::Value live = co_await parts_.kube.get(kClaims, key(what.claim), {}, stop);
  if (!parts_.may_act()) co_return kLeadsNoLonger;
  json::Array owners;
  const json::Array* has = json::array_at(live, {"metadata", "ownerReferences"});
  for (const json::Value& one : has != nullptr ? *has : json::Array{}) {
    const std::string_view kind = json::string_at(one, {"kind"}), name = json::string_at(one, {"name"});
    const bool ours = (kind == "NodeSet" && name == parts_.set.meta.name) || (kind == "Pod" && name == what.pod);
    if (!ours) owners.push_back(one);
  }
  if (what.nodeset_owner) owners.push_back(owner());
  if (what.pod_owner) {
    // One that blocks asks for the right to update pods/finalizers where OwnerReferencesPermissionEnforcement is on.
    owners.push_back(json::Object{{"apiVersion", "v1"},
                                  {"kind", "Pod"},
                                  {"name", what.pod},
                                  {"uid", what.pod_owner->str()},
                                  {"controller", true},
                                  {"blockOwnerDeletion", false}});
  }
  json::Value patch = json::Object{
      {"metadata", json::Object{{"uid", json::string_at(live, {"metadata", "uid"})},
                                {"resourceVersion", json::string_at(live, {"metadata", "resourceVersion"})},
                                {"ownerReferences", std::move(owners)}}}};
  co_await parts_.kube.patch(kClaims, key(what.claim), PatchType::kMerge, std::move(patch), {}, {}, stop);
  co_return Performed{};
}

// --- revisions, finalizers -------------------------------------------------------------------------------------------

Task<Performed> Performer::run(CreateRevision what, std::stop_token stop) {
  json::Object labels = to_json(selector_labels(names::kSlurmd, parts_.set.meta.name));
  labels[names::kRevisionHash] = what.hash;
  json::Object annotations{{names::kTemplateHash, parts_.state.template_hash}};
  json::Value revision = json::Object{{"apiVersion", kRevisions.api_version()},
                                      {"kind", kRevisions.kind},
                                      {"metadata", json::Object{{"name", what.name},
                                                                {"namespace", parts_.set.meta.ns},
                                                                {"labels", std::move(labels)},
                                                                {"annotations", std::move(annotations)},
                                                                {"ownerReferences", json::Array{owner()}}}},
                                      {"data", json::parse(parts_.state.template_data)},
                                      {"revision", what.revision}};
  bool exists = false;
  try {
    co_await parts_.kube.create(kRevisions, parts_.set.meta.ns, std::move(revision), {}, stop);
  } catch (const kube::AlreadyExists&) {
    exists = true;
  }
  if (!exists) co_return Performed{};
  const json::Value live = co_await parts_.kube.get(kRevisions, key(what.name), {}, stop);
  const json::Value* data = json::find(live, {"data"});
  if (data != nullptr && canonical_text(*data) == parts_.state.template_data) co_return Performed{};
  co_return Performed{Outcome::kFailed, fmt::format("revision {} is there with other data", what.name), true};
}

Task<Performed> Performer::run(PatchRevision what, std::stop_token stop) {
  if (what.adopt) {
    const bool ours = co_await still_ours(stop);
    if (!ours) co_return Performed{Outcome::kStale, "the NodeSet is another one or goes"};
    if (!parts_.may_act()) co_return kLeadsNoLonger;
  }
  json::Value patch = json::Object{};
  if (what.revision) json::at_or_create(patch, {"revision"}) = *what.revision;
  if (what.hash_label) json::at_or_create(patch, {"metadata", "labels", names::kRevisionHash}) = *what.hash_label;
  if (what.template_hash) {
    json::at_or_create(patch, {"metadata", "annotations", names::kTemplateHash}) = *what.template_hash;
  }
  if (what.adopt) json::at_or_create(patch, {"metadata", "ownerReferences"}) = json::Array{owner()};
  co_await parts_.kube.patch(kRevisions, key(what.name), PatchType::kStrategic, std::move(patch), {}, {}, stop);
  co_return Performed{};
}

Task<Performed> Performer::run(DeleteRevision what, std::stop_token stop) {
  co_await parts_.kube.remove(kRevisions, key(what.name), {}, stop);
  co_return Performed{};
}

Task<Performed> Performer::run(SetFinalizer what, std::stop_token stop) {
  json::Array finalizers;
  for (const std::string& has : parts_.set.meta.finalizers) {
    if (has != what.name) finalizers.emplace_back(has);
  }
  if (what.present) finalizers.emplace_back(what.name);
  json::Value patch = json::Object{{"metadata", json::Object{{"uid", parts_.set.meta.uid},
                                                             {"resourceVersion", parts_.meta.resource_version},
                                                             {"finalizers", std::move(finalizers)}}}};
  co_await parts_.kube.patch(kNodeSets, key(parts_.set.meta.name), PatchType::kMerge, std::move(patch), {}, {}, stop);
  co_return Performed{};
}

Task<Performed> Performer::run(WriteStatus, std::stop_token) {
  BASCULE_CHECK(false, "the driver writes the status itself");
  co_return Performed{};
}

// --- Slurm -----------------------------------------------------------------------------------------------------------

Task<std::optional<SlurmNodeView>> Performer::look(std::string name, std::stop_token stop) {
  SlurmCluster& cluster = *parts_.cluster;
  std::optional<slurm::Node> node = co_await cluster.client().get_node(name, stop);
  if (!node) co_return std::nullopt;
  // One node's own answer may be late about what is allocated: busy is believed when either says so, and a table asked
  // for now settles it.
  const auto listed = cluster.mirror().node(name);
  if (listed && is_busy_base(listed->states.base)) node->states.base = listed->states.base;
  if (is_busy_base(node->states.base) && !(listed && is_busy_base(listed->states.base))) {
    slurm::NodeList table = co_await cluster.client().list_nodes(0, stop);
    const auto row = std::ranges::find(table.nodes, name, &slurm::Node::name);
    if (row != table.nodes.end()) node->states.base = row->states.base;
  }
  co_return view_slurm_node(*node, parts_.work(name));
}

Task<Performed> Performer::run(WriteSlurmNode what, std::stop_token stop) {
  if (!parts_.cluster) co_return no_slurm();
  if (what.expects_reason) {
    const std::optional<slurm::Node> node = co_await parts_.cluster->client().get_node(what.node, stop);
    std::optional<SlurmNodeView> fresh;
    if (node) fresh = view_slurm_node(*node, nullptr);
    if (!may_write(what, fresh ? &*fresh : nullptr)) {
      co_return Performed{Outcome::kStale, fmt::format("Slurm node {} has changed meanwhile", what.node)};
    }
    if (!parts_.may_act()) co_return kLeadsNoLonger;
  }
  slurm::NodeUpdate change;
  change.state = what.state;
  change.reason = what.reason;
  change.comment = what.comment;
  change.topology = what.topology;
  change.features = what.features;
  change.active_features = what.active_features;
  co_await parts_.cluster->client().update_node(what.node, std::move(change), stop);
  co_return Performed{};
}

Task<Performed> Performer::run(DeleteSlurmNode what, std::stop_token stop) {
  if (!parts_.cluster) co_return no_slurm();
  // A job that came since the last table may require the node.
  slurm::ClusterMirror& mirror = parts_.cluster->mirror();
  if (!mirror.listed_lately()) co_return Performed{Outcome::kStale, "a younger table of Slurm's jobs is needed"};
  if (mirror.job_that_requires(what.node)) {
    co_return Performed{Outcome::kStale, fmt::format("a job requires Slurm node {}", what.node)};
  }
  const std::optional<SlurmNodeView> fresh = co_await look(what.node, stop);
  if (!may_prune(what, fresh ? &*fresh : nullptr)) {
    co_return Performed{Outcome::kStale, fmt::format("Slurm node {} has changed meanwhile", what.node)};
  }
  if (!parts_.may_act()) co_return kLeadsNoLonger;
  co_await parts_.cluster->client().delete_node(what.node, stop);
  co_return Performed{};
}

Task<Performed> Performer::run(WriteReservation what, std::stop_token stop) {
  if (!parts_.cluster) co_return no_slurm();
  slurm::ReservationUpdate change;
  change.name = what.name;
  change.start_time = epoch_seconds(what.start);
  change.duration = static_cast<std::uint32_t>(
      std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::minutes>(what.length).count()));
  change.flags = what.flags;
  change.users = std::vector<std::string>{std::string(names::kSlurmUser)};
  change.nodes = what.nodes;
  co_await parts_.cluster->client().write_reservation(std::move(change), stop);
  co_return Performed{};
}

Task<Performed> Performer::run(DeleteReservation what, std::stop_token stop) {
  if (!parts_.cluster) co_return no_slurm();
  co_await parts_.cluster->client().delete_reservation(what.name, stop);
  co_return Performed{};
}

}  // namespace bascule::op::nodeset

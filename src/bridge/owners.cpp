#include "bridge/owners.hpp"

#include <algorithm>
#include <charconv>

#include "bridge/group_status.hpp"
#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

constexpr Duration kRemember = std::chrono::seconds(30);
constexpr std::size_t kMaxRemembered = 10'000;

const kube::Resource kWorkloads{"scheduling.k8s.io", "v1alpha2", "workloads", "Workload", true};
const kube::Resource kJobSets{"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true};

constexpr int kMostAbove = 8;

const kube::Resource* known_resource(std::string_view api_version, std::string_view kind) {
  static const kube::Resource* const kKnown[] = {&kube::resources::kReplicaSets, &kube::resources::kStatefulSets,
                                                 &kube::resources::kPods};
  for (const kube::Resource* one : kKnown) {
    if (one->kind == kind && one->api_version() == api_version) return one;
  }
  return nullptr;
}

// No kind of Kubernetes or of a CRD has a longer name; an owner reference is any text.
bool can_be(std::string_view api_version, std::string_view kind) {
  return kube::Discovery::can_be(api_version) && kind.size() <= 63;
}

bool is_pod(std::string_view api_version, std::string_view kind) {
  return kind == "Pod" && api_version == "v1";
}

bool is_job(std::string_view api_version, std::string_view kind) {
  return kind == "Job" && api_version == "batch/v1";
}

// What Slurm's jobs are made for; beside it what is above does not count.
bool is_workload(std::string_view api_version, std::string_view kind) {
  return is_pod(api_version, kind) || is_job(api_version, kind) ||
         (kind == "JobSet" && api_version.starts_with("jobset.x-k8s.io/"));
}

// The controller of Deployments copies their annotations to their ReplicaSets.
bool is_copied_below(std::string_view api_version, std::string_view kind) {
  return kind == "Deployment" && api_version == "apps/v1";
}

Root root_from_pod(const kube::Pod& pod) {
  Root root;
  root.key = pod.meta.key;
  root.uid = pod.meta.uid;
  root.annotations = pod.meta.annotations;
  return root;
}

std::string group_key(const Uid& unit) {
  return "group " + unit.str();
}

std::uint32_t count_at(const json::Value& object, json::Path path) {
  const auto number = json::int_at(object, path);
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(number.value_or(1), 1, 1'000'000));
}

void read_coscheduling(const json::Value& object, json::Interner& interner, Root& root) {
  root.gang = Gang{count_at(object, {"spec", "minMember"}), {}};
  const std::string_view phase = json::string_at(object, {"status", "phase"});
  if (phase == "Failed" || phase == "Finished") root.gang->closed = "is " + std::string(phase);
  const json::Object* resources = json::object_at(object, {"spec", "minResources"});
  if (resources == nullptr) return;
  for (const auto& [name, amount] : *resources) {
    const auto quantity = amount.is_string() ? Quantity::parse(json::view(amount.get_string())) : std::nullopt;
    if (quantity) root.fallback_limits.emplace_back(interner(name), *quantity);
  }
  std::ranges::sort(root.fallback_limits, {}, [](const auto& entry) { return entry.first.view(); });
}

// A group keeps the size that it was made with; the set's may be another by now. Workers that are made only when their
// leader is ready are none that it could wait for.
std::uint32_t leader_worker_minimum(const json::Value& set, const kube::Pod& pod) {
  if (json::string_at(set, {"spec", "startupPolicy"}) == "LeaderReady") return 1;
  const std::string_view text = kube::value_or(pod.meta.annotations, names::kLwsSize);
  std::uint32_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error == std::errc{} && end == text.data() + text.size() && size > 0) return size;
  return count_at(set, {"spec", "leaderWorkerTemplate", "size"});
}

// Later ones win key by key.
void override_annotations(kube::StringMap& to, const kube::StringMap& from) {
  for (const auto& entry : from) {
    const auto key = [](const auto& e) { return e.first.view(); };
    const auto place = std::ranges::lower_bound(to, entry.first.view(), {}, key);
    if (place != to.end() && place->first == entry.first) {
      place->second = entry.second;
    } else {
      to.insert(place, entry);
    }
  }
}

}  // namespace

bool always_speaks(std::string_view api_version, std::string_view kind) noexcept {
  return is_job(api_version, kind) || ((kind == "ReplicaSet" || kind == "StatefulSet") && api_version == "apps/v1");
}

Task<Owners::Found> Owners::root_of(PodPtr pod, std::stop_token stop) {
  if (const auto group = group_of(*pod)) co_return co_await group_root(*group, pod, stop);
  const kube::OwnerReference* owner = pod->meta.controller();
  if (owner == nullptr) co_return root_from_pod(*pod);
  const NamespacedName key{pod->meta.key.ns, owner->name.str()};
  if (is_job(owner->api_version, owner->kind)) co_return co_await job_root(key, owner->uid, true, stop);
  Above first{owner->api_version.str(), owner->kind.str(), key, owner->uid};
  std::optional<Found> found = co_await highest(std::move(first), stop);
  if (!found) co_return root_from_pod(*pod);
  co_return std::move(*found);
}

Task<std::optional<Owners::Found>> Owners::highest(Above first, std::stop_token stop) {
  const std::string memory = first.memory();
  if (auto known = recall(memory)) co_return Found(std::move(*known));
  std::optional<Root> best;
  bool workload = false;
  std::string what = "the pod's owner, ";
  bool of_a_pod = false;
  std::optional<Above> next = std::move(first);
  for (int i = 0; next && i < kMostAbove && !is_copied_below(next->api_version, next->kind); ++i) {
    if (is_job(next->api_version, next->kind)) {
      Found job = co_await job_root(next->key, next->uid, false, stop);
      // At its deadline Kubernetes ends its pods, and so what these made; anything else that it made goes on.
      if (Root* root = std::get_if<Root>(&job); root != nullptr && !of_a_pod) root->active_deadline_seconds.reset();
      co_return std::holds_alternative<Root>(job) ? remember(memory, std::get<Root>(std::move(job))) : std::move(job);
    }
    const Looked looked = co_await look_at(*next, stop);
    if (!looked) co_return Found(what + looked.error());
    if (!*looked) break;
    Root root = root_from({}, **looked);
    root.api_version = next->api_version;
    root.kind = next->kind;
    if (root.uid != next->uid)
      co_return Found(what + next->kind + " " + next->key.str() + ", is another object of that name");
    const bool counts = is_workload(next->api_version, next->kind);
    if (counts || !workload) best = std::move(root);
    workload = workload || counts;
    what = "an owner above the pod's, ";
    of_a_pod = is_pod(next->api_version, next->kind);
    next = above(**looked);
  }
  if (!best) co_return std::nullopt;
  co_return Found(remember(memory, std::move(*best)));
}

std::optional<Owners::Above> Owners::above(const json::Value& object) {
  const json::Array* owners = json::array_at(object, {"metadata", "ownerReferences"});
  if (owners == nullptr) return std::nullopt;
  const auto owner =
      std::ranges::find_if(*owners, [](const json::Value& one) { return json::bool_at(one, {"controller"}); });
  if (owner == owners->end()) return std::nullopt;
  return Above{
      std::string(json::string_at(*owner, {"apiVersion"})),
      std::string(json::string_at(*owner, {"kind"})),
      {std::string(json::string_at(object, {"metadata", "namespace"})), std::string(json::string_at(*owner, {"name"}))},
      Uid(json::string_at(*owner, {"uid"}))};
}

// Rights are the site's to give: for a kind that we may not read one question each half minute, not one a pod.
Task<Owners::Looked> Owners::look_at(Above& owner, std::stop_token stop) {
  if (!can_be(owner.api_version, owner.kind)) co_return std::nullopt;
  const std::string kind = owner.api_version + " " + owner.kind + " " + owner.key.ns;
  const bool must = always_speaks(owner.api_version, owner.kind);
  const auto denied = denied_.find(kind);
  if (denied != denied_.end() && client_.loop().now() - denied->second < kRemember) co_return std::nullopt;
  std::string problem = owner.kind + " " + owner.key.str() + " of " + owner.api_version;
  bool may = true;
  try {
    const std::optional<kube::Resource> resource = co_await served(owner, stop);
    if (resource) {
      if (!resource->namespaced) owner.key.ns.clear();
      co_return co_await client_.get(*resource, owner.key, {}, stop);
    }
    may = false;
  } catch (const kube::NotFound&) {
    problem += ", does not exist";
  } catch (const kube::NotServed&) {
    may = must;
    problem += ", cannot be read: this cluster does not serve that kind";
  } catch (const kube::Forbidden& error) {
    may = must;
    problem.append(kMayNotBeRead).append(error.what());
  } catch (const kube::Error& error) {
    problem += ", cannot be read: " + std::string(error.what());
  }
  if (may) co_return std::unexpected(std::move(problem));
  if (denied_.size() >= kMaxRemembered) denied_.clear();
  denied_.insert_or_assign(kind, client_.loop().now());
  co_return std::nullopt;
}

Task<std::optional<kube::Resource>> Owners::served(const Above& owner, std::stop_token stop) {
  if (const kube::Resource* known = known_resource(owner.api_version, owner.kind)) co_return *known;
  const std::size_t slash = owner.api_version.find('/');
  const bool core = slash == std::string::npos;
  co_return co_await discovery_.of_kind(core ? "" : owner.api_version.substr(0, slash),
                                        core ? owner.api_version : owner.api_version.substr(slash + 1), owner.kind,
                                        stop);
}

Task<Owners::Found> Owners::owner_root(const kube::Resource& resource, NamespacedName key, Uid uid, std::string what,
                                       std::stop_token stop) {
  const std::string memory = resource.kind + " " + key.str() + " " + uid.str();
  if (auto known = recall(memory)) co_return std::move(*known);
  const auto object = co_await read(resource, key, stop);
  if (!object) co_return what + object.error();
  Root root = root_from(resource, *object);
  if (root.uid != uid) co_return what + resource.kind + " " + key.str() + ", is another object of that name";
  co_return remember(memory, std::move(root));
}

Task<Owners::FoundJob> Owners::find_job(NamespacedName key, Uid uid, std::stop_token stop) {
  if (jobs_.synced()) {
    std::shared_ptr<const kube::Job> job = jobs_.get(key);
    if (job && job->meta.uid == uid) co_return job;
    co_return std::unexpected("Job " + key.str() + ", is not known yet");
  }
  // Of somebody who asks once.
  const auto object = co_await read(kube::resources::kJobs, key, stop);
  if (!object) co_return std::unexpected(object.error());
  std::shared_ptr<const kube::Job> job = kube::decode_job(json::dump(*object), interner_);
  if (job->meta.uid == uid) co_return job;
  co_return std::unexpected("Job " + key.str() + ", is another object of that name");
}

Task<Owners::Found> Owners::job_root(NamespacedName key, Uid uid, bool direct, std::stop_token stop) {
  const std::string higher = "an owner above the pod's, ";
  const FoundJob job = co_await find_job(key, uid, stop);
  if (!job) co_return (direct ? "the pod's owner, " : higher) + job.error();
  const kube::Job& is = **job;
  Root root{"batch/v1", "Job", key, uid, is.meta.annotations, is.active_deadline_seconds, {}, {}, {}};
  if (direct) root.fallback_limits = is.template_limits;
  const kube::OwnerReference* above = is.meta.controller();
  if (above == nullptr || above->kind != "JobSet" || !above->api_version.view().starts_with("jobset.x-k8s.io/")) {
    co_return root;
  }
  const NamespacedName set_key{key.ns, above->name.str()};
  Found found =
      co_await owner_root(kJobSets, set_key, above->uid, direct ? "the owner of the pod's Job, " : higher, stop);
  if (Root* set = std::get_if<Root>(&found)) {
    set->active_deadline_seconds = root.active_deadline_seconds;
    set->fallback_limits = std::move(root.fallback_limits);
  }
  co_return found;
}

Task<Owners::Found> Owners::group_root(Group group, PodPtr pod, std::stop_token stop) {
  if (auto known = recall(group_key(group.unit))) co_return std::move(*known);
  const kube::Resource& resource = resource_of(group.kind);
  auto object = co_await read(resource, group.object, stop);
  if (!object) co_return "the pod's group, " + object.error();
  Root root = root_from(resource, *object);
  switch (group.kind) {
    case GroupKind::kWorkload: {
      // Without a gang policy its pods may start one by one.
      root.gang = Gang{count_at(*object, {"spec", "schedulingPolicy", "gang", "minCount"}), {}};
      const std::string problem = co_await add_workload(root, std::move(*object), pod, stop);
      if (!problem.empty()) co_return problem;
      break;
    }
    case GroupKind::kCoscheduling:
      read_coscheduling(*object, interner_, root);
      break;
    case GroupKind::kLeaderWorker:
      root.gang = Gang{leader_worker_minimum(*object, *pod), {}};
      root.job_name = group.object.name + "-" + std::string(kube::value_or(pod->meta.labels, names::kLwsGroupIndex));
      break;
  }
  co_return remember(group_key(group.unit), std::move(root));
}

Task<std::string> Owners::add_workload(Root& root, json::Value group, PodPtr pod, std::stop_token stop) {
  const kube::OwnerReference* owner = pod->meta.controller();
  if (owner != nullptr && is_job(owner->api_version, owner->kind)) {
    const NamespacedName key{pod->meta.key.ns, owner->name.str()};
    const FoundJob job = co_await find_job(key, owner->uid, stop);
    if (!job) co_return "the pod's owner, " + job.error();
    override_annotations(root.annotations, (*job)->meta.annotations);
    root.active_deadline_seconds = (*job)->active_deadline_seconds;
    root.fallback_limits = (*job)->template_limits;
    root.louder = "Job " + key.str();
  }
  const std::string workload(json::string_at(group, {"spec", "podGroupTemplateRef", "workload", "workloadName"}));
  if (workload.empty()) co_return std::string();
  std::string problem;
  try {
    const NamespacedName key{root.key.ns, workload};
    const json::Value object = co_await client_.get(kWorkloads, key, {}, stop);
    override_annotations(root.annotations, root_from(kWorkloads, object).annotations);
    root.louder = "Workload " + key.str() + (root.louder.empty() ? "" : ", ") + root.louder;
  } catch (const kube::NotFound&) {
    // It may be gone while its group lives on.
  } catch (const kube::Forbidden& error) {
    problem = "the Workload of the pod's group, " + workload;
    problem.append(kMayNotBeRead).append(error.what());
  } catch (const kube::Error& error) {
    problem = "the Workload of the pod's group, " + workload + ", cannot be read: " + error.what();
  }
  co_return problem;
}

Task<std::expected<json::Value, std::string>> Owners::read(kube::Resource resource, NamespacedName key,
                                                           std::stop_token stop) {
  std::string problem = resource.kind + " " + key.str() + " of " + resource.api_version();
  try {
    co_return co_await client_.get(resource, key, {}, stop);
  } catch (const kube::NotFound&) {
    problem += ", does not exist";
  } catch (const kube::NotServed&) {
    problem += ", cannot be read: this cluster does not serve that kind";
  } catch (const kube::Forbidden& error) {
    problem.append(kMayNotBeRead).append(error.what());
  } catch (const kube::Error& error) {
    problem += ", cannot be read: " + std::string(error.what());
  }
  co_return std::unexpected(std::move(problem));
}

Root Owners::root_from(const kube::Resource& resource, const json::Value& object) {
  Root root;
  root.api_version = resource.api_version();
  root.kind = resource.kind;
  root.key = {std::string(json::string_at(object, {"metadata", "namespace"})),
              std::string(json::string_at(object, {"metadata", "name"}))};
  root.uid = Uid(json::string_at(object, {"metadata", "uid"}));
  if (const json::Object* annotations = json::object_at(object, {"metadata", "annotations"})) {
    for (const auto& [k, v] : *annotations) {
      if (v.is_string()) root.annotations.emplace_back(interner_(k), interner_(json::view(v.get_string())));
    }
    std::ranges::sort(root.annotations, {}, [](const auto& entry) { return entry.first.view(); });
  }
  return root;
}

std::optional<Root> Owners::recall(const std::string& key) const {
  const auto known = remembered_.find(key);
  if (known == remembered_.end() || client_.loop().now() - known->second.at >= kRemember) return std::nullopt;
  return known->second.root;
}

void Owners::forget(const Uid& unit) {
  remembered_.erase(group_key(unit));
}

bool Owners::forget_older(const Uid& unit) {
  const auto known = remembered_.find(group_key(unit));
  if (known == remembered_.end() || client_.loop().now() - known->second.at < std::chrono::seconds(1)) return false;
  remembered_.erase(known);
  return true;
}

Root Owners::remember(const std::string& key, Root root) {
  if (remembered_.size() >= kMaxRemembered) remembered_.clear();
  remembered_.insert_or_assign(key, Remembered{root, client_.loop().now()});
  return root;
}

}  // namespace bascule::bridge

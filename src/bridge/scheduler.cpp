#include "bridge/scheduler.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "bridge/node_facts.hpp"
#include "bridge/pace.hpp"
#include "bridge/pod_patch.hpp"
#include "bridge/scheduler_impl.hpp"
#include "bridge/unit_jobs.hpp"
#include "runtime/client_metrics.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

using namespace std::chrono_literals;

namespace {
constexpr Duration kFailureIsTold = 10s;
constexpr std::size_t kMostRoots = 10'000;
bool has_claims(const PodPtr& pod) {
  return !pod->claims.empty();
}
// When a group is looked at again whose condition was being written.
constexpr Duration kGroupAgain = 5s;
}  // namespace

void Scheduler::Impl::connect() {
  index = std::make_unique<UnitIndex>(self, [this](const Uid& unit) { controller->add(unit.str()); });
  controller = std::make_unique<runtime::Controller>(
      loop,
      runtime::ControllerOptions{.name = "scheduler", .workers = options.workers, .pauses = {.longest = kLongestPause}},
      [this](std::string key, std::stop_token stop) { return reconcile(Uid(key), std::move(stop)); }, metrics);
  pods.on_change([this](const PodPtr& before, const PodPtr& after) {
    table.on_pod(before, after);
    index->on_pod(before, after);
    const PodPtr& pod = after ? after : before;
    const bool freed = before && holds_node(*before) && !(after && holds_node(*after));
    if (freed && label_of(*before)) mirror.expect_start();
    if (!after || after->terminal()) devices.forget(pod->meta.uid);
    if (!after || !wants_node(*after)) notes.forget(pod->meta.uid);
  });
  table.on_neighbour([this](const std::string& node, Neighbour& other) { look_at(node, other); });
  nodes.on_change([this](const NodePtr& before, const NodePtr& after) {
    table.on_node(before, after);
    nodes_changed();
  });
  table.volumes().on_limits = [this](const std::string& node) {
    table.on_devices(node);
    nodes_changed();
  };
  table.set_devices(&devices.ledger());
  devices.ledger().on_node = [this](const std::string& node) {
    table.on_devices(node);
    nodes_changed();
  };
  devices.ledger().on_our_claim = [this](const ClaimPtr& claim) {
    const PodPtr pod = pods.get({claim->meta.key.ns, claim->pod_name});
    if (pod && index->ours(*pod)) controller->add(unit_of(*pod).str());
  };
  mirror.on_job([this](const slurm::ClusterMirror::JobChange& change) {
    index->on_job(change);
    // Nodes stand idle until it is looked at.
    const bool starts = change.after && runs(*change.after) && !(change.before && runs(*change.before));
    const Uid* unit = starts ? index->unit_of_job(change.after->id) : nullptr;
    if (unit != nullptr) controller->add_first(unit->str());
    if (!was_synced && mirror.synced()) all_again();
  });
  // Where a job runs must be known at once; of others' jobs, and of one that ends after its pods have their nodes, the
  // state is enough.
  mirror.set_wants_detail([this](JobId id, const slurm::Job* known, const slurm::JobStates& now) {
    if (known == nullptr && loop.now() < look_for_lost_until) return true;
    if (!now.ended() && index->unit_of_job(id) != nullptr) return true;
    return index->any_pod(id, [&now](const kube::Pod& pod) { return !now.ended() || wants_node(pod); });
  });
  mirror.on_node([this](const slurm::ClusterMirror::NodeChange& change) {
    table.on_slurm_node(change.before, change.after);
    nodes_changed();
  });
  mirror.on_health([this](bool) { all_again(); });
}

// A pod whose job is lost and whose id is another's, or whose job slurmctld has started anew elsewhere, holds its node
// without Slurm's knowledge.
void Scheduler::Impl::look_at(const std::string& node, Neighbour& other) const {
  using Hold = Neighbour::Hold;
  const auto job = mirror.job(other.job);
  other.confirmed_at = mirror.confirmed_at(other.job);
  if (!job) {
    other.hold = mirror.knowledge(other.job) == slurm::Knowledge::kGone ? Hold::kOver : Hold::kUnknown;
  } else if (!runs(*job) || requeued_since(*job, other.restarts) || !index->is_job_of(*job, *other.pod) ||
             is_another(*job, *other.pod)) {
    other.hold = Hold::kOver;
  } else if (!job->nodes.empty()) {
    const NodePtr known = nodes.get({"", node});
    const auto there = slurm::hostlist_contains(job->nodes, known ? slurm_name_of(*known) : node);
    other.hold = !there ? Hold::kUnknown : *there ? Hold::kHolds : Hold::kOver;
  }
}

void Scheduler::Impl::volumes_changed() {
  for (const Uid& unit : std::exchange(wait_for_volumes, {})) controller->add_after(unit.str(), 200ms);
}

// Units that wait for nodes look again, a moment later so that a burst of changes is one look.
void Scheduler::Impl::nodes_changed() {
  if (table.generation() == nodes_seen) return;
  nodes_seen = table.generation();
  for (const Uid& unit : std::exchange(wait_for_nodes, {})) controller->add_after(unit.str(), 200ms);
}

void Scheduler::Impl::all_again() {
  was_synced = mirror.synced();
  for (const Uid& unit : index->all()) controller->add(unit.str());
}

SlurmView Scheduler::Impl::slurm_view() const {
  return {mirror.synced(),          mirror.nodes_synced(), mirror.reachable(),
          mirror.why_unreachable(), mirror.full_as_of(),   mirror.listed_since_away()};
}

Task<runtime::Result> Scheduler::Impl::reconcile(Uid unit, std::stop_token stop) {
  co_await settle_bindings(unit, stop);
  UnitView view;
  view.uid = unit;
  view.pods = index->pods(unit);
  view.pods_followed = pods.following();
  if (view.pods.empty()) {
    forget(unit);
    co_return runtime::Result{};
  }
  const auto first = std::ranges::find_if(view.pods, [](const PodPtr& pod) { return wants_node(*pod); });
  const bool waits = first != view.pods.end();
  if (waits) {
    Owners::Found root = co_await owners.root_of(*first, stop);
    if (std::holds_alternative<Root>(root)) {
      view.root = std::move(std::get<Root>(root));
    } else {
      view.root_problem = std::get<std::string>(root);
    }
    view.pods = index->pods(unit);  // what changed meanwhile
    if (view.pods.empty()) {
      controller->add(unit.str());
      co_return runtime::Result{};
    }
  }
  view.jobs = index->jobs(unit, mirror);
  view.labelled = labelled(view);
  if (waits && view.pods.size() == 1 && view.jobs.empty()) {
    const auto find = [this](JobId id) { return std::pair(mirror.job(id), mirror.confirmed_at(id)); };
    view.inherits = index->inheritance(*view.pods.front(), find, handed_on);
  }
  if (!may_act()) co_return runtime::Result{.requeue_after = 1s};
  table.volumes().set_known(volumes.synced());
  UnitMemory& mind = memory[unit];
  const UnitPlan plan = plan_unit(options.config, self, view, slurm_view(), table, mind, loop.now(), loop.wall());
  if (!plan.unseen.empty()) {  // planned without the room that these took
    for (const Uid& pod : plan.unseen) table.usage().forget(pod);
    controller->add_first(unit.str());
    co_return runtime::Result{};
  }
  if (plan.submit && view.root->gang && owners.forget_older(unit)) {
    controller->add_first(unit.str());
    co_return runtime::Result{};
  }
  if (plan.waits_for_nodes) {
    wait_for_nodes.insert(unit);
    if (std::ranges::any_of(view.pods, has_claims)) wait_for_volumes.insert(unit);
  }
  if (plan.submit) tell_of_root(*view.root, view.pods);
  std::exception_ptr failure;
  Waiting of_failure;
  try {
    co_await act(plan, unit, stop);
    memory[unit].failing.reset();
  } catch (const kube::NotDone& error) {
    failure = std::current_exception();
    of_failure = {"KubernetesFails", "the API server does not do what is next for the pod",
                  std::string(": ") + error.what()};
  } catch (const slurm::Error& error) {
    failure = std::current_exception();
    of_failure = {"SlurmUnreachable", "Slurm does not do what is next for the pod", std::string(": ") + error.what()};
  }
  if (failure) {
    of_failure.pods = std::move(view.pods);
    tell_failure(unit, std::move(of_failure));
    std::rethrow_exception(failure);
  }
  for (const Waiting& waiting : plan.waiting) notes.tell(waiting);
  co_return rest(plan, unit);
}

// What is left of its jobs is the pod sync's.
void Scheduler::Impl::forget(const Uid& unit) {
  for (const auto& [pod, doubt] : memory[unit].doubted) table.usage().forget(pod);
  memory.erase(unit);
  wait_for_nodes.erase(unit);
  wait_for_volumes.erase(unit);
  group_status.forget(unit);
  owners.forget(unit);
}

// The plan is done: when it is planned anew, should nothing happen before.
runtime::Result Scheduler::Impl::rest(const UnitPlan& plan, const Uid& unit) {
  runtime::Result result;
  if (!tell_group(unit)) result.requeue_after = kGroupAgain;
  if (plan.wake) {
    const Duration wake = std::max<Duration>(*plan.wake - loop.now(), 10ms);
    result.requeue_after = std::min(result.requeue_after.value_or(wake), wake);
  }
  if (const auto untold = notes.untold_for(plan.waiting)) {
    result.requeue_after = std::min(result.requeue_after.value_or(*untold), *untold);
  }
  const std::vector<PodPtr> left = index->pods(unit);
  const bool wait = std::ranges::any_of(left, [](const PodPtr& pod) { return wants_node(*pod); });
  if (!wait) {
    wait_for_nodes.erase(unit);
    wait_for_volumes.erase(unit);
  }
  if (const UnitMemory& known = memory[unit]; wait ? known.idle(loop.now()) : known.settled()) memory.erase(unit);
  return result;
}

// Whoever wrote the annotations looks at their object, or at a pod of it. Admission sees neither together.
void Scheduler::Impl::tell_of_root(const Root& root, const std::vector<PodPtr>& about) {
  std::string text;
  for (const std::string& one : root_warnings(root, about)) text += (text.empty() ? "" : "; ") + one;
  if (text.empty()) return;
  if (told_of_root.size() >= kMostRoots) told_of_root.clear();
  std::string& told = told_of_root[root.uid];
  if (std::exchange(told, text) == text) return;
  const auto tell = [&](const kube::ObjectReference& object) {
    events.record(object, kube::EventType::kWarning, "SlurmAnnotationDoubtful", "Submitting", text);
  };
  tell({root.api_version, root.kind, root.key, root.uid});
  const auto waiting = std::ranges::find_if(about, [](const PodPtr& pod) { return wants_node(*pod); });
  if (waiting != about.end() && (*waiting)->meta.uid != root.uid) tell(reference_to(**waiting));
}

// What passes in a moment is not worth a word, nor a write to a server in trouble.
void Scheduler::Impl::tell_failure(const Uid& unit, Waiting waiting) {
  std::optional<TimePoint>& since = memory[unit].failing;
  if (!since) since = loop.now();
  if (loop.now() - *since < kFailureIsTold) return;
  std::erase_if(waiting.pods, [](const PodPtr& pod) { return !wants_node(*pod); });
  notes.tell(waiting);
}

// False: what was said of the group last is still being written, and may not be so any more.
bool Scheduler::Impl::tell_group(const Uid& unit) {
  const std::vector<PodPtr> members = index->pods(unit);
  const auto group = members.empty() ? std::nullopt : group_of(*members.front());
  if (!group || !group_status.untold(*group, members)) return true;
  return beside.start(group->object.ns, unit, [this, group = *group, unit](std::stop_token stop) {
    return group_status.tell(group, index->pods(unit), std::move(stop));
  });
}

// The id that a pod's label names has been given anew: to a user, or to the bridge of another cluster at the same
// Slurm.
bool Scheduler::Impl::is_anothers(const slurm::Job& job) const {
  if (job.admin_comment.empty()) return true;
  const auto record = parse_record(job.admin_comment);
  if (!record) return !job.external;
  return !record->legacy && (record->bridge != self.bridge || record->cluster != self.cluster);
}

slurm::Knowledge Scheduler::Impl::labelled(UnitView& view) const {
  for (const PodPtr& pod : view.pods) {
    const JobId job = label_of(*pod);
    if (!job || !wants_node(*pod) || index->unit_of_job(job) != nullptr) continue;
    if (std::ranges::any_of(view.jobs, [job](const JobView& one) { return one.job->id == job; })) continue;
    const slurm::Knowledge known = mirror.knowledge(job);
    const auto seen = mirror.job(job);
    if (known == slurm::Knowledge::kPresent && seen && seen->states.ended()) continue;
    if (known == slurm::Knowledge::kPresent && seen && is_anothers(*seen)) continue;
    if (known == slurm::Knowledge::kPresent) view.foreign = seen;
    if (known != slurm::Knowledge::kGone) return known;
  }
  return slurm::Knowledge::kGone;
}

Scheduler::Scheduler(kube::Client& kube, slurm::Client& slurm, SchedulerOptions options, runtime::Metrics* metrics)
    : impl_(std::make_unique<Impl>(kube, slurm, std::move(options), metrics)) {}
Scheduler::~Scheduler() = default;

Task<> Scheduler::run(std::stop_token stop) {
  Impl& self = *impl_;
  const std::string uid = co_await cluster_uid(self.kube, stop);
  if (uid.empty()) co_return;
  self.self = {self.options.config.scheduler_name, uid};
  self.table.set_self(self.self);
  self.connect();
  const auto waiting = watch_waiting(self.metrics, self.pods, self.self.bridge);
  const auto slurm = watch_slurm(self.metrics, self.mirror);
  const auto dropped = runtime::watch_events(self.metrics, self.events);
  self.pods.start();
  self.nodes.start();
  self.jobs.start();
  self.volumes.start();
  self.devices.start();
  // Slurm's tables come while Kubernetes' do; nothing is decided before both are in.
  self.mirror.start();
  bool synced = co_await self.pods.wait_synced(stop, TimePoint::max());
  synced = synced && co_await self.nodes.wait_synced(stop, TimePoint::max());
  synced = synced && co_await self.jobs.wait_synced(stop, TimePoint::max());
  if (synced) {
    log::info("scheduler started", {{"pods", self.pods.size()}, {"nodes", self.nodes.size()}});
    self.controller->start();
    while (co_await sleep_for(self.loop, std::chrono::hours(24), stop)) {
    }
  }
  co_await self.beside.stop();
  co_await self.controller->stop();
  co_await self.mirror.stop();
  co_await self.pods.stop();
  co_await self.nodes.stop();
  co_await self.jobs.stop();
  co_await self.volumes.stop();
  co_await self.devices.stop();
  co_await self.events.stop(self.loop.now() + std::chrono::seconds(2));
}

Task<std::string> cluster_uid(kube::Client& kube, std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::string problem;
    try {
      const json::Value ns = co_await kube.get(kube::resources::kNamespaces, {"", "kube-system"}, {}, stop);
      const std::string uid(json::string_at(ns, {"metadata", "uid"}));
      if (!uid.empty()) co_return uid;
      problem = "namespace kube-system has no uid";
    } catch (const kube::Error& error) {
      problem = error.what();
    } catch (const net::Error& error) {
      problem = error.what();
    }
    log::limited(log::Level::kWarning, 10s, "cannot read namespace kube-system", {{"why", problem}});
    const bool again = co_await sleep_for(kube.loop(), 2s, stop);
    if (!again) break;
  }
  co_return std::string();
}

}  // namespace bascule::bridge

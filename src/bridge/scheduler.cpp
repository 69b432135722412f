#include "bridge/scheduler.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "base/time.hpp"
#include "bridge/bridge_metrics.hpp"
#include "bridge/device_claims.hpp"
#include "bridge/group_status.hpp"
#include "bridge/names.hpp"
#include "bridge/node_table.hpp"
#include "bridge/owners.hpp"
#include "bridge/pod_patch.hpp"
#include "bridge/unit_index.hpp"
#include "bridge/unit_jobs.hpp"
#include "kube/events.hpp"
#include "kube/informer.hpp"
#include "runtime/controller.hpp"

namespace bascule::bridge {

namespace {

using namespace std::chrono_literals;

// How often a detail that keeps changing (the expected start) is written again.
constexpr Duration kDetailEvery = std::chrono::minutes(5);
constexpr std::size_t kAtOnce = 32;

const kube::Resource kClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
const kube::Resource kVolumes{"", "v1", "persistentvolumes", "PersistentVolume", false};
const kube::Resource kClasses{"storage.k8s.io", "v1", "storageclasses", "StorageClass", false};

json::Value claim_patch(const kube::DynamicObject& claim, const std::string& node) {
  return json::Object{
      {"metadata", json::Object{{"resourceVersion", claim.meta.resource_version},
                                {"annotations", json::Object{{"volume.kubernetes.io/selected-node", node}}}}}};
}
json::Value volume_patch(const kube::DynamicObject& volume, const kube::DynamicObject& claim) {
  return json::Object{{"metadata", json::Object{{"resourceVersion", volume.meta.resource_version}}},
                      {"spec", json::Object{{"claimRef", json::Object{{"apiVersion", "v1"},
                                                                      {"kind", "PersistentVolumeClaim"},
                                                                      {"namespace", claim.meta.key.ns},
                                                                      {"name", claim.meta.key.name},
                                                                      {"uid", claim.meta.uid.str()}}}}}};
}

json::Object mark_patch(JobId job) {
  return {{"metadata", json::Object{{"labels", json::Object{{std::string(names::kSlurmJobId), job.str()}}},
                                    {"finalizers", json::Array{std::string(names::kFinalizer)}}}}};
}

json::Value binding(const kube::Pod& pod, const std::string& node, std::uint32_t restarts) {
  json::Object annotations{{std::string(names::kSlurmNode), node}};
  if (restarts > 0) annotations[names::kSlurmRestarts] = std::to_string(restarts);
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "Binding"},
                      {"metadata", json::Object{{"name", pod.meta.key.name},
                                                {"namespace", pod.meta.key.ns},
                                                {"uid", pod.meta.uid.str()},
                                                {"annotations", std::move(annotations)}}},
                      {"target", json::Object{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
}

json::Object condition_patch(const kube::Pod& pod, const Waiting& waiting, WallTime now) {
  json::Object condition{{"type", "PodScheduled"},
                         {"status", "False"},
                         {"reason", waiting.reason},
                         {"message", waiting.message + waiting.detail}};
  if (pod.scheduled.status != "False") condition["lastTransitionTime"] = print_rfc3339(now);
  return {{"status", json::Object{{"conditions", json::Array{std::move(condition)}}}}};
}

}  // namespace

struct Scheduler::Impl {
  struct Memory : UnitMemory {
    std::map<Uid, TimePoint> told;  // when the condition was last written
  };

  Impl(kube::Client& k, slurm::Client& s, SchedulerOptions o, runtime::Metrics* m)
      : kube(k),
        loop(k.loop()),
        slurm(s),
        options(std::move(o)),
        metrics(m),
        counters(m),
        pods(k, {.resource = kube::resources::kPods}, kube::decode_pod, interner),
        nodes(k, {.resource = kube::resources::kNodes}, kube::decode_node, interner),
        jobs(k, {.resource = kube::resources::kJobs}, kube::decode_job, interner),
        claims(k, {.resource = kClaims}, kube::decode_dynamic, interner),
        volumes(k, {.resource = kVolumes}, kube::decode_dynamic, interner),
        classes(k, {.resource = kClasses}, kube::decode_dynamic, interner),
        owners(k, jobs),
        group_status(k, options.config.scheduler_name),
        mirror(loop, s, options.mirror),
        devices(k, s, mirror, interner, options.config.scheduler_name),
        events(k, options.config.scheduler_name, options.instance) {}

  kube::Client& kube;
  Loop& loop;
  slurm::Client& slurm;
  SchedulerOptions options;
  runtime::Metrics* metrics;
  SchedulerCounters counters;
  json::Interner interner;
  kube::Informer<kube::Pod> pods;
  kube::Informer<kube::Node> nodes;
  kube::Informer<kube::Job> jobs;
  kube::Informer<kube::DynamicObject> claims, volumes, classes;
  Owners owners;
  GroupStatus group_status;
  slurm::ClusterMirror mirror;
  DeviceClaims devices;
  kube::EventRecorder events;
  Identity self;
  NodeTable table;
  std::unique_ptr<UnitIndex> index;
  std::unique_ptr<runtime::Controller> controller;
  std::unordered_map<Uid, Memory> memory;
  std::set<Uid> wait_for_nodes;
  std::set<JobId> handed_on;  // being given to another unit
  std::uint64_t nodes_seen = 0;
  bool was_synced = false;

  void connect() {
    index = std::make_unique<UnitIndex>(self, [this](const Uid& unit) { controller->add(unit.str()); });
    controller = std::make_unique<runtime::Controller>(
        loop, runtime::ControllerOptions{.name = "scheduler", .workers = options.workers},
        [this](std::string key, std::stop_token stop) { return reconcile(Uid(std::move(key)), std::move(stop)); },
        metrics);
    pods.on_change([this](const PodPtr& before, const PodPtr& after) {
      table.on_pod(before, after);
      index->on_pod(before, after);
      if (!after || after->terminal()) devices.forget((after ? after : before)->meta.uid);
    });
    table.on_holds([this](const kube::Pod& pod) {
      const auto job = mirror.job(label_of(pod));
      return !job || (runs(*job) && !requeued_since(*job, pod));
    });
    nodes.on_change([this](const NodePtr& before, const NodePtr& after) {
      table.on_node(before, after);
      nodes_changed();
    });
    table.volumes().set_known(false);
    claims.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      table.volumes().on_claim(before, after);
      volumes_changed();
    });
    volumes.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      table.volumes().on_volume(before, after);
      volumes_changed();
    });
    classes.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      table.volumes().on_class(before, after);
      volumes_changed();
    });
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
      if (!was_synced && mirror.synced()) all_again();
    });
    mirror.on_node([this](const slurm::ClusterMirror::NodeChange& change) {
      table.on_slurm_node(change.before, change.after);
      nodes_changed();
    });
    mirror.on_health([this](bool) { all_again(); });
  }

  void volumes_changed() {
    for (const Uid& unit : std::exchange(wait_for_nodes, {})) controller->add_after(unit.str(), 200ms);
  }
  // Units that wait for nodes look again, a moment later so that a burst of changes is one look.
  void nodes_changed() {
    if (table.generation() == nodes_seen) return;
    nodes_seen = table.generation();
    for (const Uid& unit : std::exchange(wait_for_nodes, {})) controller->add_after(unit.str(), 200ms);
  }
  void all_again() {
    was_synced = mirror.synced();
    for (const Uid& unit : index->all()) controller->add(unit.str());
  }

  SlurmView slurm_view() const {
    return {mirror.synced(), mirror.nodes_synced(), mirror.reachable(), mirror.why_unreachable(), mirror.full_as_of()};
  }

  Task<runtime::Result> reconcile(Uid unit, std::stop_token stop) {
    UnitView view;
    view.uid = unit;
    view.pods = index->pods(unit);
    if (view.pods.empty()) {
      memory.erase(unit);  // what is left of its jobs is the pod sync's
      wait_for_nodes.erase(unit);
      group_status.forget(unit);
      co_return runtime::Result{};
    }
    const auto first = std::ranges::find_if(view.pods, [](const PodPtr& pod) { return wants_node(*pod); });
    if (first != view.pods.end()) {
      Owners::Found root = co_await owners.root_of(*first, stop);
      if (std::holds_alternative<Root>(root)) {
        view.root = std::move(std::get<Root>(root));
      } else {
        view.root_problem = std::get<std::string>(root);
      }
      view.pods = index->pods(unit);  // what changed meanwhile
    }
    view.jobs = index->jobs(unit, mirror);
    view.labelled = labelled(view);
    if (first != view.pods.end() && view.pods.size() == 1 && view.jobs.empty()) {
      const auto find = [this](JobId id) { return std::pair(mirror.job(id), mirror.confirmed_at(id)); };
      view.inherits = index->inheritance(*view.pods.front(), find, handed_on);
    }
    if (!may_act()) co_return runtime::Result{.requeue_after = 1s};
    table.volumes().set_known(claims.synced() && volumes.synced() && classes.synced());
    Memory& mind = memory[unit];
    const UnitPlan plan = plan_unit(options.config, self, view, slurm_view(), table, mind, loop.now(), loop.wall());
    if (plan.waits_for_nodes) wait_for_nodes.insert(unit);
    co_await act(plan, unit, stop);
    for (const Waiting& waiting : plan.waiting) co_await tell(waiting, unit, stop);
    if (const auto group = group_of(*view.pods.front())) co_await group_status.tell(*group, index->pods(unit), stop);
    runtime::Result result;
    if (plan.wake) result.requeue_after = std::max<Duration>(*plan.wake - loop.now(), 10ms);
    if (!told_all(plan)) result.requeue_after = std::min(result.requeue_after.value_or(options.quiet), options.quiet);
    co_return result;
  }

  slurm::Knowledge labelled(const UnitView& view) const {
    for (const PodPtr& pod : view.pods) {
      const JobId job = label_of(*pod);
      if (!job || !wants_node(*pod) || index->record(job) != nullptr) continue;
      if (std::ranges::any_of(view.jobs, [job](const JobView& one) { return one.job->id == job; })) continue;
      const slurm::Knowledge known = mirror.knowledge(job);
      const auto seen = mirror.job(job);
      if (known == slurm::Knowledge::kPresent && seen && seen->states.ended()) continue;
      if (known != slurm::Knowledge::kGone) return known;
    }
    return slurm::Knowledge::kGone;
  }

  Task<> act(const UnitPlan& plan, Uid unit, std::stop_token stop) {
    for (const UnitPlan::Cancel& cancel : plan.cancels) co_await cancel_job(cancel, unit, stop);
    if (plan.submit) co_await submit(*plan.submit, unit, stop);
    if (plan.update) {
      const JobId job = plan.update->job;
      handed_on.insert(job);
      try {
        co_await update(*plan.update, unit, stop);
      } catch (...) {
        handed_on.erase(job);
        throw;
      }
      handed_on.erase(job);
    }
    co_await each(plan.marks, [this, &unit, &stop](const UnitPlan::Mark& mark) { return mark_pod(mark, unit, stop); });
    for (const Volumes::Binding& binding : plan.volumes) co_await make_volumes(binding, stop);
    for (const ClaimPtr& claim : plan.device_drops) co_await devices.drop(claim, stop);
    for (const JobId job : plan.layouts) co_await read_layout(job, unit, stop);
    if (!plan.confirms.empty()) memory[unit].confirmed.clear();
    for (const JobId job : plan.confirms) {
      co_await mirror.ask(job, stop);
      memory[unit].confirmed[job] = loop.now() + kConfirmWithin;
      controller->add(unit.str());
    }
    co_await bind_pods(plan.binds, unit, stop);
    if (plan.look_soon) mirror.poke();
  }

  // Many pods of a gang at once, but not all: the API server has others to serve.
  template <typename Item, typename Work>
  Task<> each(const std::vector<Item>& items, Work work) {
    for (std::size_t at = 0; at < items.size(); at += kAtOnce) {
      std::vector<Task<>> batch;
      for (std::size_t i = at; i < std::min(items.size(), at + kAtOnce); ++i) batch.push_back(work(items[i]));
      co_await when_all(loop, std::move(batch));
    }
  }

  bool may_act() const { return !options.may_act || options.may_act(); }

  Task<> submit(slurm::JobDescription description, Uid unit, std::stop_token stop) {
    if (!may_act()) co_return;
    memory[unit].submitting = true;
    const std::string comment = description.admin_comment.value_or("");
    slurm::Job job;
    job.name = description.name.value_or("");
    job.partition = description.partition.value_or("");
    try {
      job.id = co_await slurm.submit_external(std::move(description), stop);
    } catch (const slurm::Unreachable& error) {
      submit_failed(unit, error.what(), !error.surely_not_done);
    } catch (const slurm::Malformed& error) {
      submit_failed(unit, error.what(), true);
    } catch (const slurm::Error& error) {
      submit_failed(unit, error.what(), false);
    } catch (...) {
      submit_failed(unit, "the submit was interrupted", true);
      throw;
    }
    memory[unit].submitting = false;
    controller->add_first(unit.str());
    if (!job.id) co_return;
    memory[unit].failures = 0;
    counters.accepted.add();
    log::info("job submitted", {{"job", job.id}, {"unit", unit.str()}});
    job.states.base = slurm::JobState::kPending;
    job.admin_comment = comment;
    job.external = true;
    for (const PodPtr& pod : index->pods(unit)) {
      events.record(
          reference_to(*pod), kube::EventType::kNormal, "SlurmJobSubmitted", "Submitting",
          "Slurm job " + job.id.str() + " submitted" + (job.partition.empty() ? "" : " to partition " + job.partition));
    }
    mirror.learn(std::move(job));
    mirror.poke();
  }

  void submit_failed(const Uid& unit, const std::string& why, bool doubtful) {
    Memory& mind = memory[unit];
    mind.failures = std::min(mind.failures + 1, 10u);
    mind.hold_until = loop.now() + std::min<Duration>(1s * (1u << (mind.failures - 1)), 60s);
    mind.hold_why = why;
    mind.submitting = false;
    if (doubtful) mind.doubt = loop.now();
    (doubtful ? counters.in_doubt : counters.refused).add();
    log::limited(log::Level::kWarning, 1s, "job not submitted", {{"unit", unit.str()}, {"why", why}});
  }

  Task<> update(UnitPlan::Update update, Uid unit, std::stop_token stop) {
    std::string refused;
    try {
      co_await slurm.update_job(update.job, std::move(update.description), stop);
      co_await mirror.ask(update.job, stop);
    } catch (const slurm::Unreachable&) {
      throw;  // tried again with back-off; an update may be repeated
    } catch (const slurm::Error& error) {
      refused = error.what();
    }
    if (refused.empty()) co_return;
    // The job stays as it was; another change of the request is tried again.
    memory[unit].update_refused = update.fingerprint;
    log::warning("job not updated", {{"job", update.job}, {"why", refused}});
    mirror.poke();
  }

  Task<> cancel_job(UnitPlan::Cancel cancel, Uid unit, std::stop_token stop) {
    log::info("job cancelled", {{"job", cancel.job}, {"unit", unit.str()}, {"why", cancel.why}});
    try {
      co_await slurm.cancel_job(cancel.job, stop);
    } catch (const slurm::NotFound&) {
    }
    for (const PodPtr& pod : index->pods(unit)) {
      events.record(reference_to(*pod), kube::EventType::kWarning, "SlurmJobCancelled", "Cancelling",
                    "Slurm job " + cancel.job.str() + " cancelled: " + cancel.why);
    }
    co_await mirror.ask(cancel.job, stop);
    mirror.poke();
  }

  Task<> mark_pod(UnitPlan::Mark mark, Uid unit, std::stop_token stop) {
    const bool marked = co_await patch_pod(kube, mark.pod, mark_patch(mark.job), {}, stop);
    if (!marked) co_return;  // the pod has gone; its event is on the way
    memory[unit].marked[mark.pod->meta.uid] = mark.job;
    controller->add_first(unit.str());
  }

  // As kube-scheduler does: a claim is told its node, or a free volume is given to it; others do the rest, and their
  // changes wake the unit.
  Task<> make_volumes(Volumes::Binding binding, std::stop_token stop) {
    try {
      for (const Volumes::Take& take : binding.takes) {
        co_await kube.patch(kVolumes, take.volume->meta.key, kube::PatchType::kMerge,
                            volume_patch(*take.volume, *take.claim), {}, {}, stop);
      }
      for (const ObjectPtr& claim : binding.provisions) {
        co_await kube.patch(kClaims, claim->meta.key, kube::PatchType::kMerge, claim_patch(*claim, binding.node), {},
                            {}, stop);
      }
    } catch (const kube::Conflict&) {  // changed meanwhile: decided anew
    } catch (const kube::NotFound&) {
    }
  }

  Task<> read_layout(JobId job, Uid unit, std::stop_token stop) {
    std::optional<JobLayout> layout = co_await devices.layout(job, stop);
    if (!layout) co_return;  // the plan asks again
    memory[unit].layouts.insert_or_assign(job, std::move(*layout));
    controller->add_first(unit.str());
  }

  // Claims first, and of a gang that starts all of them: whose claim does not stand is not bound.
  Task<> bind_pods(std::vector<UnitPlan::Bind> binds, Uid unit, std::stop_token stop) {
    for (const PodPtr& pod : index->pods(unit)) {
      const Uid& uid = pod->meta.uid;
      const bool tried = std::ranges::any_of(binds, [&uid](const auto& one) { return one.pod->meta.uid == uid; });
      if (!tried && wants_node(*pod) && !memory[unit].binding.contains(uid)) devices.forget(uid);
    }
    std::set<Uid> unclaimed;
    co_await each(binds, [this, &unit, &unclaimed, &stop](const UnitPlan::Bind& bind) {
      return claim_devices(bind, unit, unclaimed, stop);
    });
    if (!unclaimed.empty()) controller->add_after(unit.str(), 1s);
    std::set<JobId> incomplete;
    for (const UnitPlan::Bind& bind : binds) {
      if (bind.all_or_none && unclaimed.contains(bind.pod->meta.uid)) incomplete.insert(bind.job);
    }
    std::erase_if(binds, [&](const UnitPlan::Bind& bind) {
      return unclaimed.contains(bind.pod->meta.uid) || incomplete.contains(bind.job);
    });
    co_await each(binds, [this, &unit, &stop](const UnitPlan::Bind& bind) { return bind_pod(bind, unit, stop); });
  }

  Task<> claim_devices(UnitPlan::Bind bind, Uid unit, std::set<Uid>& unclaimed, std::stop_token stop) {
    if (!bind.device_claim) co_return;
    unclaimed.insert(bind.pod->meta.uid);
    if (!may_act()) co_return;
    std::string problem = co_await devices.make(bind.pod, std::move(*bind.device_claim), stop);
    if (problem.empty()) {
      unclaimed.erase(bind.pod->meta.uid);
    } else {
      co_await tell({"ClaimNotReady", std::move(problem), {}, {bind.pod}}, unit, stop);
    }
  }

  Task<> bind_pod(UnitPlan::Bind bind, Uid unit, std::stop_token stop) {
    if (!may_act()) co_return;
    const Uid uid = bind.pod->meta.uid;
    const std::string node = bind.node->meta.key.name;
    table.usage().assume(bind.pod, node);
    memory[unit].binding.insert_or_assign(uid, NodeName(node));
    bool failed = false;
    try {
      co_await kube.create_sub(kube::resources::kPods, bind.pod->meta.key, "binding",
                               binding(*bind.pod, node, bind.restarts), stop);
    } catch (const kube::NotFound&) {
      failed = true;
    } catch (const kube::Conflict& error) {
      failed = true;
      log::warning("pod not bound", {{"pod", bind.pod->meta.key}, {"why", error}});
    } catch (...) {
      unassume(unit, uid);
      throw;
    }
    if (failed) {
      unassume(unit, uid);
      memory[unit].bind_after = loop.now() + 1s;
      if (bind.device_claim) co_await devices.undo(bind.pod, bind.device_claim->key, stop);
      controller->add_after(unit.str(), 1s);
      co_return;
    }
    counters.bound.add();
    log::info("pod bound", {{"pod", bind.pod->meta.key}, {"node", node}, {"job", bind.job}});
    events.record(
        reference_to(*bind.pod), kube::EventType::kNormal, "Scheduled", "Binding",
        "Successfully assigned " + bind.pod->meta.key.str() + " to " + node + " by Slurm job " + bind.job.str());
  }

  void unassume(const Uid& unit, const Uid& pod) {
    table.usage().forget(pod);
    memory[unit].binding.erase(pod);
  }

  // Whether every waiting pod is old enough to have been told.
  bool told_all(const UnitPlan& plan) const {
    return std::ranges::all_of(plan.waiting, [this](const Waiting& waiting) {
      return std::ranges::none_of(waiting.pods, [this](const PodPtr& pod) { return young(*pod); });
    });
  }
  bool young(const kube::Pod& pod) const { return loop.wall() - pod.meta.created < options.quiet; }

  // Writes the condition of the waiting pods where it says something else, and an event with it.
  Task<> tell(const Waiting& waiting, Uid unit, std::stop_token stop) {
    for (const PodPtr& pod : waiting.pods) {
      if (young(*pod)) continue;
      const kube::Condition& now = pod->scheduled;
      const bool same =
          now.status == "False" && now.reason == waiting.reason && now.message.starts_with(waiting.message);
      const bool same_detail = now.message == waiting.message + waiting.detail;
      TimePoint& told = memory[unit].told[pod->meta.uid];
      if (same && (same_detail || loop.now() - told < kDetailEvery)) continue;
      told = loop.now();
      const bool written = co_await patch_pod(kube, pod, condition_patch(*pod, waiting, loop.wall()), "status", stop);
      if (written && !same) {
        events.record(reference_to(*pod), kube::EventType::kWarning, "FailedScheduling", "Scheduling",
                      waiting.message + waiting.detail);
      }
    }
  }
};

Scheduler::Scheduler(kube::Client& kube, slurm::Client& slurm, SchedulerOptions options, runtime::Metrics* metrics)
    : impl_(std::make_unique<Impl>(kube, slurm, std::move(options), metrics)) {}
Scheduler::~Scheduler() = default;

Task<> Scheduler::run(std::stop_token stop) {
  Impl& self = *impl_;
  const std::string uid = co_await cluster_uid(self.kube, stop);
  if (uid.empty()) co_return;
  self.self = {self.options.config.scheduler_name, uid};
  self.connect();
  const auto waiting = watch_waiting(self.metrics, self.pods, self.self.bridge);
  const auto slurm = watch_slurm(self.metrics, self.mirror);
  self.pods.start();
  self.nodes.start();
  self.jobs.start();
  self.claims.start();
  self.volumes.start();
  self.classes.start();
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
  co_await self.controller->stop();
  co_await self.mirror.stop();
  co_await self.pods.stop();
  co_await self.nodes.stop();
  co_await self.jobs.stop();
  co_await self.claims.stop();
  co_await self.volumes.stop();
  co_await self.classes.stop();
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

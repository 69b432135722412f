#include "operator/nodeset/driver.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.hpp"
#include "operator/api/names.hpp"
#include "operator/api/read.hpp"
#include "operator/builders/slurm_key.hpp"
#include "operator/nodeset/driver_pass.hpp"
#include "operator/nodeset/driver_state.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/plan.hpp"
#include "operator/nodeset/reservation.hpp"
#include "runtime/controller.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::op::nodeset {

namespace {

using namespace std::chrono_literals;

// A burst of changes is one look.
constexpr Duration kSoon = 10ms;
constexpr Duration kJobsSettle = 200ms;
// However quiet it is.
constexpr Duration kLook = 60s;
constexpr Duration kReservationLook = 30s;
constexpr Duration kUnknownLook = 2s;
// A slurmd registers within so long of its pod being ready, or not at all.
constexpr Duration kRegisters = 90s;
constexpr Duration kFirstPause = 100ms;
constexpr Duration kLongestPause = 30s;
// What was decided on has changed: the copies will show it soon.
constexpr Duration kLongestStale = 5s;

bool looks_same(const slurm::Node& a, const slurm::Node& b) {
  return a.states == b.states && a.reason == b.reason && a.comment == b.comment && a.topology == b.topology &&
         a.features == b.features && a.active_features == b.active_features && a.reservation == b.reservation;
}
bool looks_same(const slurm::Job& a, const slurm::Job& b) {
  return a.states == b.states && a.nodes == b.nodes && a.required_nodes == b.required_nodes &&
         a.time_limit == b.time_limit && a.start_time == b.start_time;
}

void look_soon(SlurmCluster& cluster) {
  cluster.mirror().poke();
  cluster.mirror().poke_nodes();
}

}  // namespace

struct NodeSetDriver::Impl {
  Impl(Parts p, Options o)
      : parts(p),
        options(std::move(o)),
        loop(p.kube.loop()),
        views(parts, options, interner),
        gate(loop),
        controller(
            loop, {.name = "nodeset-controller", .workers = options.workers},
            [this](std::string key, std::stop_token stop) {
              return reconcile(NamespacedName::parse(key), std::move(stop));
            },
            p.metrics) {
    listen_to_kubernetes();
    listen_to_slurm();
  }

  const Parts parts;
  const Options options;
  Loop& loop;
  json::Interner interner;
  Views views;
  std::map<NamespacedName, Entry> entries;
  Gate gate;
  std::stop_source stopping;
  runtime::Controller controller;

  // --- what wakes a NodeSet ------------------------------------------------------------------------------------------

  Views::Use soon() {
    return [this](const NamespacedName& nodeset) { controller.add_after(nodeset.str(), kSoon); };
  }

  void listen_to_kubernetes() {
    parts.nodesets.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      controller.add((after ? after : before)->meta.key.str());
    });
    parts.controllers.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      views.sets_of_controller((after ? after : before)->meta.key, soon());
    });
    parts.secrets.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      views.sets_of_secret((after ? after : before)->meta.key, soon());
    });
    parts.stateful_sets.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      const auto key_of = [](const ObjectPtr& set) { return key_made_for(set ? &set->value : nullptr); };
      if (key_of(before) == key_of(after)) return;
      const kube::ObjectMeta& meta = (after ? after : before)->meta;
      if (kube::value_or(meta.labels, names::kAppName) != names::kSlurmctld.name) return;
      views.sets_of_controller({meta.key.ns, std::string(kube::value_or(meta.labels, names::kAppInstance))}, soon());
    });
    views.pods.on_change([this](const PodPtr& before, const PodPtr& after) {
      if (before) views.sets_of(*before, soon());
      if (after) views.sets_of(*after, soon());
    });
    views.nodes.on_change([this](const auto& before, const auto& after) {
      if (before && after && looks_same(*before, *after)) return;
      views.sets_on_node((after ? after : before)->meta.key.name, soon());
      views.daemon_sets(soon());
    });
    views.claims.on_change(
        [this](const auto& before, const auto& after) { views.sets_of_claim(*(after ? after : before), soon()); });
    views.revisions.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      const kube::ObjectMeta& meta = (after ? after : before)->meta;
      const NamespacedName nodeset{meta.key.ns, std::string(kube::value_or(meta.labels, names::kAppInstance))};
      if (parts.nodesets.get(nodeset)) controller.add_after(nodeset.str(), kSoon);
    });
  }

  void listen_to_slurm() {
    parts.clusters.listen({.on_cluster =
                               [this](const NamespacedName& key) {
                                 views.jobs_changed(key);
                                 views.sets_of_controller(key, soon());
                               },
                           .on_node =
                               [this](const NamespacedName& key, const slurm::ClusterMirror::NodeChange& change) {
                                 if (change.before && change.after && looks_same(*change.before, *change.after)) return;
                                 for (const auto& node : {change.before, change.after}) {
                                   if (node) views.sets_of_slurm_node(key, *node, soon());
                                 }
                               },
                           .on_job =
                               [this](const NamespacedName& key, const slurm::ClusterMirror::JobChange& change) {
                                 if (change.before && change.after && looks_same(*change.before, *change.after)) return;
                                 views.jobs_changed(key);
                                 for (const auto& job : {change.before, change.after}) {
                                   if (job && !job->nodes.empty()) job_changed(key, *job);
                                 }
                               }});
  }

  void job_changed(const NamespacedName& key, const slurm::Job& job) {
    const auto nodes = slurm::expand_hostlist(job.nodes);
    if (!nodes) return;
    for (const std::string& node : *nodes) {
      views.sets_of_slurm_name(
          key.ns, node, [this](const NamespacedName& nodeset) { controller.add_after(nodeset.str(), kJobsSettle); });
    }
  }

  // --- one NodeSet ---------------------------------------------------------------------------------------------------

  Entry& entry_of(const ObjectPtr& object) {
    Entry& entry = entries[object->meta.key];
    if (entry.uid != object->meta.uid) {
      entry = {};
      entry.uid = object->meta.uid;
    }
    return entry;
  }

  bool may_act() const { return !options.may_act || options.may_act(); }

  Task<runtime::Result> reconcile(NamespacedName key, std::stop_token stop) {
    if (!may_act()) co_return runtime::Result{.requeue_after = 1s};
    const ObjectPtr object = parts.nodesets.get(key);
    if (!object) {
      entries.erase(key);
      co_return runtime::Result{};
    }
    Entry& entry = entry_of(object);
    Reading now;
    read(object, entry, now);
    co_await confirm(now, stop);
    if (now.planable) note_known(now.state, entry);
    note_clock(entry);
    if (!now.state.spec.deleted && now.sure) tell_fault(entry, *object, now.trouble);
    const Plan plan = now.planable ? plan_nodeset(now.state, entry.memory, loop.wall()) : Plan{};
    DriverPass pass(parts, options, now, entry);
    pass.tell(plan);
    co_await pass.perform(plan, stop);
    co_await pass.write_status(plan, stop);
    remember_writes(entry, plan, now, pass);
    entry.waits = plan.waits;
    if (!now.trouble.empty()) entry.waits.push_back(now.trouble);
    co_return runtime::Result{.requeue_after = next_look(entry, plan, now, pass)};
  }

  void read(const ObjectPtr& object, Entry& entry, Reading& now) {
    try {
      views.read(object, now);
    } catch (const BadObject& error) {
      views.read_bad(object, error.what(), now);
      return;
    }
    State& state = now.state;
    if (entry.collisions && entry.collisions > state.status.collisions) {
      state.status.collisions = entry.collisions;
    } else {
      entry.collisions.reset();
    }
  }

  void note_known(const State& state, Entry& entry) const {
    if (state.slurm.known) {
      entry.unknown_since.reset();
    } else if (!entry.unknown_since) {
      entry.unknown_since = loop.now();
    }
  }

  // Civil time may be set: pauses and what was sent a moment ago would last for an hour more, or be over at once.
  void note_clock(Entry& entry) const {
    const Duration ahead = loop.wall().time_since_epoch() - loop.now().time_since_epoch();
    const Duration step = ahead - entry.ahead;
    if (std::chrono::abs(step) < 1s) return;  // slewed, or nothing
    entry.ahead = ahead;
    follow_clock(entry.memory, step);
  }

  // What must not be taken from a copy, or is in none.
  Task<> confirm(Reading& now, std::stop_token stop) {
    State& state = now.state;
    if (state.controller == Presence::kGone) {
      const NamespacedName key = Views::controller_of(*now.object);
      state.controller = Presence::kUnknown;
      now.sure = false;
      const auto gone = [&] {
        state.controller = Presence::kGone;
        now.sure = true;
        now.reason = kControllerMissing;
        now.planable |= state.spec.deleted.has_value();
      };
      try {
        (void)co_await parts.kube.get(kControllers, key, {}, stop);
      } catch (const kube::NotFound&) {
        gone();
      } catch (const kube::NotServed& error) {
        // Its kind is gone too: the watch saw it go, or it never was.
        if (state.spec.deleted) gone();
        log::limited(log::Level::kWarning, 60s, "Controller not read", {{"controller", key}, {"why", error}});
      } catch (const kube::Error& error) {
        log::limited(log::Level::kWarning, 60s, "Controller not read", {{"controller", key}, {"why", error}});
      }
    }
    const Spec& spec = state.spec;
    if (!state.slurm.known || (spec.update != UpdateType::kScheduledUpdate && !spec.has_reservation_finalizer)) {
      co_return;
    }
    try {
      const auto found = co_await now.cluster->client().get_reservation(reservation_name(spec), stop);
      if (found) state.slurm.reservation = view_reservation(*found);
    } catch (const slurm::Error& error) {
      state.slurm.known = false;
      state.slurm.why = error.what();
    }
  }

  void remember_writes(Entry& entry, const Plan& plan, const Reading& now, const DriverPass& pass) const {
    if (!now.cluster) return;
    std::erase_if(entry.slurm_writes,
                  [&](const auto& write) { return now.cluster->mirror().nodes_as_of() > write.second; });
    if (!pass.wrote_slurm()) return;
    for (const Action& action : plan.actions) {
      if (const auto* write = std::get_if<WriteSlurmNode>(&action.what)) {
        entry.slurm_writes.try_emplace(write->node, loop.now());
      }
    }
    look_soon(*now.cluster);
  }

  std::optional<Duration> next_look(Entry& entry, const Plan& plan, const Reading& now, const DriverPass& pass) const {
    Duration next = now.state.spec.update == UpdateType::kScheduledUpdate ? kReservationLook : kLook;
    const auto at_most = [&next](Duration other) { next = std::min(next, std::max(other, kSoon)); };
    if (plan.wake) at_most(*plan.wake - loop.wall());
    if (!now.state.slurm.known && now.cluster) at_most(kUnknownLook);
    if (pass.held_back()) at_most(1s);
    if (now.state.slurm.known && is_behind(now.state)) {
      look_soon(*now.cluster);
      at_most(kUnknownLook);
    }
    if (pass.again() && now.cluster) look_soon(*now.cluster);
    if (pass.failed() || pass.again()) {
      const auto doublings = std::min<std::uint32_t>(entry.failures++, 10);
      at_most(std::min(pass.failed() ? kLongestPause : kLongestStale, kFirstPause * (1 << doublings)));
    } else {
      entry.failures = 0;
    }
    return next;
  }

  // The node table may lack what has just happened: a slurmd that has registered, the end of a node's last job.
  bool is_behind(const State& state) const {
    return std::ranges::any_of(state.pods, [&](const PodView& pod) {
      if (pod.owner != Owner::kUs || pod.terminating) return false;
      const SlurmNodeView* node = state.slurm.find(slurm_name_of(pod));
      const bool young = pod.healthy() && loop.wall() - pod.ready_since < kRegisters;
      if (node == nullptr) return young;
      if (young && node->states.base == slurm::NodeState::kDown) return true;
      return is_drained_by_us(*node) && is_busy(*node) && !node->has_jobs;
    });
  }

  void tell_fault(Entry& entry, const kube::DynamicObject& object, const std::string& fault) const {
    if (entry.told == fault) return;
    entry.told = fault;
    if (fault.empty()) return;
    log::warning("NodeSet has to be mended", {{"nodeset", object.meta.key}, {"why", fault}});
    parts.events.record({std::string(names::kApiVersion), "NodeSet", object.meta.key, object.meta.uid},
                        kube::EventType::kWarning, "SyncFailed", "Sync", fault, {{}, names::reporter("NodeSet")});
  }

  // --- life ----------------------------------------------------------------------------------------------------------

  Task<> run() {
    views.pods.start();
    views.nodes.start();
    views.claims.start();
    views.revisions.start();
    const std::stop_token stop = stopping.get_token();
    bool synced = co_await views.pods.wait_synced(stop, TimePoint::max());
    synced = synced && co_await views.nodes.wait_synced(stop, TimePoint::max());
    synced = synced && co_await views.claims.wait_synced(stop, TimePoint::max());
    synced = synced && co_await views.revisions.wait_synced(stop, TimePoint::max());
    if (!synced) co_return;
    log::info("NodeSets started", {{"pods", views.pods.size()}, {"nodes", views.nodes.size()}});
    controller.start();
  }

  Task<> stop() {
    stopping.request_stop();
    co_await gate.close();
    co_await controller.stop();
    co_await views.pods.stop();
    co_await views.nodes.stop();
    co_await views.claims.stop();
    co_await views.revisions.stop();
  }
};

NodeSetDriver::NodeSetDriver(Parts parts, Options options) : impl_(std::make_unique<Impl>(parts, std::move(options))) {}
NodeSetDriver::~NodeSetDriver() = default;
void NodeSetDriver::start() {
  spawn(impl_->gate, impl_->run());
}
Task<> NodeSetDriver::stop() {
  return impl_->stop();
}

std::vector<std::string> NodeSetDriver::waits(const NamespacedName& nodeset) const {
  const auto it = impl_->entries.find(nodeset);
  return it == impl_->entries.end() ? std::vector<std::string>() : it->second.waits;
}

}  // namespace bascule::op::nodeset

// The inside of the Scheduler: what it keeps, and the two halves of its work. scheduler.cpp turns what happens into a
// plan for one unit, scheduler_act.cpp does what the plan says.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bridge/beside.hpp"
#include "bridge/bridge_metrics.hpp"
#include "bridge/device_claims.hpp"
#include "bridge/group_status.hpp"
#include "bridge/node_table.hpp"
#include "bridge/owners.hpp"
#include "bridge/pace.hpp"
#include "bridge/scheduler.hpp"
#include "bridge/unit_index.hpp"
#include "bridge/volume_watch.hpp"
#include "bridge/waiting_notes.hpp"
#include "kube/events.hpp"
#include "kube/informer.hpp"
#include "runtime/controller.hpp"

namespace bascule::bridge {

struct Scheduler::Impl {
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
        owners(k, jobs),
        group_status(k, options.config.scheduler_name),
        mirror(loop, s, options.mirror),
        devices(k, s, mirror, interner, options.config),
        events(k, options.config.scheduler_name, options.instance),
        volumes(k, interner, table.volumes(), [this] { volumes_changed(); }),
        beside(k.loop()),
        notes({k, events, beside, [this](const NamespacedName& pod) { return pods.get(pod); },
               [this](const kube::Pod& pod) { controller->add_after(unit_of(pod).str(), kLongestPause); }},
              options.quiet) {}

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
  Owners owners;
  GroupStatus group_status;
  slurm::ClusterMirror mirror;
  DeviceClaims devices;
  kube::EventRecorder events;
  Identity self;
  NodeTable table;
  VolumeWatch volumes;
  Beside beside;
  WaitingNotes notes;
  std::unique_ptr<UnitIndex> index;
  std::unique_ptr<runtime::Controller> controller;
  std::unordered_map<Uid, UnitMemory> memory;
  std::set<Uid> wait_for_nodes, wait_for_volumes;  // the latter have claims
  std::set<JobId> handed_on;                       // being given to another unit
  std::uint64_t nodes_seen = 0;
  bool was_synced = false;
  std::unordered_map<Uid, std::string> told_of_root;  // what in its annotations is in vain
  TimePoint look_for_lost_until = TimePoint::min();  // a job that is not known may be one whose submit was not answered

  // What happens, and the plan for one unit (scheduler.cpp).
  void connect();
  void look_at(const std::string& node, Neighbour& other) const;
  void volumes_changed();
  void nodes_changed();
  void all_again();
  SlurmView slurm_view() const;
  bool is_anothers(const slurm::Job& job) const;
  slurm::Knowledge labelled(UnitView& view) const;
  Task<runtime::Result> reconcile(Uid unit, std::stop_token stop);
  void forget(const Uid& unit);
  runtime::Result rest(const UnitPlan& plan, const Uid& unit);
  void tell_of_root(const Root& root, const std::vector<PodPtr>& about);
  void tell_failure(const Uid& unit, Waiting waiting);
  bool tell_group(const Uid& unit);

  // What the plan says (scheduler_act.cpp).
  bool may_act() const { return !options.may_act || options.may_act(); }
  Task<> act(const UnitPlan& plan, Uid unit, std::stop_token stop);
  Task<> submit(slurm::JobDescription description, Uid unit, std::stop_token stop);
  void submit_failed(const Uid& unit, const std::string& why, bool doubtful);
  Task<> update(UnitPlan::Update update, Uid unit, std::stop_token stop);
  Task<> cancel_job(UnitPlan::Cancel cancel, Uid unit, std::stop_token stop);
  Task<bool> holds_pod(JobId job, Uid unit, std::stop_token stop);
  Task<bool> is_still_ours(JobId id, Uid unit, std::stop_token stop);
  Task<> settle_bindings(Uid unit, std::stop_token stop);
  Task<> settle(PodPtr pod, Uid unit, std::stop_token stop);
  Task<> look_for_binding(PodPtr pod, Uid unit, bool& holds, std::stop_token stop);
  Task<> mark_pod(UnitPlan::Mark mark, Uid unit, std::stop_token stop);
  Task<> confirm(JobId job, Uid unit, std::stop_token stop);
  Task<> make_volume(UnitPlan::Volume volume, Uid unit, std::stop_token stop);
  Task<> read_layout(JobId job, Uid unit, std::stop_token stop);
  Task<> bind_pods(std::vector<UnitPlan::Bind> binds, Uid unit, std::stop_token stop);
  Task<> tolerate(UnitPlan::Bind bind, Uid unit, std::set<Uid>& unready, std::stop_token stop);
  Task<> claim_devices(UnitPlan::Bind bind, Uid unit, std::set<Uid>& unready, std::stop_token stop);
  Task<> drop_ended(std::vector<UnitPlan::Bind>& binds, Uid unit, std::stop_token stop);
  Task<> bind_pod(UnitPlan::Bind bind, Uid unit, std::stop_token stop);
  Task<> create_binding(UnitPlan::Bind bind, std::string version, std::stop_token stop);
  void unassume(const Uid& unit, const Uid& pod);
  void deny(const Uid& unit, const PodPtr& pod, UnitMemory::Denial::What what, const kube::Error& error);
};

}  // namespace bascule::bridge

#include "bridge/bridge_metrics.hpp"

namespace bascule::bridge {

namespace {

runtime::Counter counter(runtime::Metrics* metrics, const char* name, const char* help,
                         const runtime::Labels& labels = {}) {
  return metrics == nullptr ? runtime::Counter() : metrics->counter(name, help, labels);
}

runtime::Counter submits(runtime::Metrics* metrics, const char* result) {
  return counter(metrics, "bascule_bridge_submits_total", "Jobs submitted to Slurm, by result", {{"result", result}});
}

}  // namespace

SchedulerCounters::SchedulerCounters(runtime::Metrics* metrics)
    : bound(counter(metrics, "bascule_bridge_binds_total", "Pods bound")),
      accepted(submits(metrics, "accepted")),
      refused(submits(metrics, "refused")),
      in_doubt(submits(metrics, "unknown")) {}

PodSyncCounters::PodSyncCounters(runtime::Metrics* metrics)
    : deleted(counter(metrics, "bascule_bridge_pods_deleted_total", "Pods deleted because their Slurm job ended")),
      cancelled(counter(metrics, "bascule_bridge_jobs_cancelled_total",
                        "Slurm jobs cancelled because their pods are over")) {}

NodeSyncCounters::NodeSyncCounters(runtime::Metrics* metrics)
    : freed(counter(metrics, "bascule_bridge_stranded_nodes_freed_total",
                    "Slurm nodes put down and resumed that were allocated to no job")) {}

void WaitingPods::begin() {
  for (auto& [reason, series] : reasons_) series.now = 0;
}

void WaitingPods::count(const kube::Pod& pod) {
  if (pod.bound() || pod.terminal() || pod.deleting()) return;
  const bool told = pod.scheduled.status == "False" && !pod.scheduled.reason.view().empty();
  std::string_view reason = told ? pod.scheduled.reason.view() : "New";
  auto found = reasons_.find(reason);
  if (found == reasons_.end() && reasons_.size() >= kMaxReasons) {
    reason = "other";
    found = reasons_.find(reason);
  }
  if (found == reasons_.end()) {
    const runtime::Gauge gauge = metrics_.gauge("bascule_bridge_waiting_pods", "Pods that wait for a node, by reason",
                                                {{"reason", std::string(reason)}});
    found = reasons_.emplace(std::string(reason), Series{gauge}).first;
  }
  ++found->second.now;
}

void WaitingPods::end() {
  for (const auto& [reason, series] : reasons_) series.gauge.set(static_cast<double>(series.now));
}

std::shared_ptr<void> watch_waiting(runtime::Metrics* metrics, const kube::Informer<kube::Pod>& pods,
                                    std::string scheduler) {
  if (metrics == nullptr) return nullptr;
  metrics->set("bascule_bridge_waiting_pods", "Pods that wait for a node, by reason", {{"reason", "Unschedulable"}}, 0);
  const auto waiting = std::make_shared<WaitingPods>(*metrics);
  return metrics->on_collect([waiting, &pods, scheduler = std::move(scheduler)] {
    waiting->begin();
    pods.for_each([&](const std::shared_ptr<const kube::Pod>& pod) {
      if (pod->scheduler_name.view() == scheduler) waiting->count(*pod);
    });
    waiting->end();
  });
}

std::shared_ptr<void> watch_slurm(runtime::Metrics* metrics, const slurm::ClusterMirror& mirror) {
  if (metrics == nullptr) return nullptr;
  const runtime::Gauge reachable =
      metrics->gauge("bascule_slurm_reachable", "1 while the last call to Slurm was answered", {});
  reachable.set(0);
  return metrics->on_collect([reachable, &mirror] { reachable.set(mirror.reachable() ? 1 : 0); });
}

}  // namespace bascule::bridge

#include "bridge/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/check.hpp"
#include "base/manual_loop.hpp"
#include "base/text_table.hpp"
#include "base/time.hpp"
#include "bridge/claim_plan.hpp"
#include "bridge/device_ledger.hpp"
#include "bridge/explain_group.hpp"
#include "bridge/node_table.hpp"
#include "bridge/owners.hpp"
#include "bridge/simulate_api.hpp"
#include "bridge/unit_index.hpp"
#include "bridge/unit_jobs.hpp"
#include "slurm/encode.hpp"

namespace bascule::bridge {

namespace {

constexpr TimePoint kNow{std::chrono::hours(1)};
constexpr std::size_t kWhyWidth = 160;
constexpr std::string_view kUnknown = ", and nothing is decided from what is unknown";

std::vector<NamespacedName> names_of(const std::vector<PodPtr>& pods) {
  std::vector<NamespacedName> out;
  for (const PodPtr& pod : pods) out.push_back(pod->meta.key);
  return out;
}

std::string describe(const slurm::JobDescription& job) {
  std::vector<std::string> parts;
  const auto nodes = job.nodes.value_or(slurm::NodeCount(1));
  parts.push_back(nodes.minimum == nodes.maximum
                      ? fmt::format("{} node{}", nodes.maximum, nodes.maximum == 1 ? "" : "s")
                      : fmt::format("{} to {} nodes", nodes.minimum, nodes.maximum));
  if (job.cpus_per_task) parts.push_back(fmt::format("{} CPUs", *job.cpus_per_task));
  if (job.memory_per_node) {
    parts.push_back(*job.memory_per_node > 0 ? fmt::format("{} MiB", *job.memory_per_node) : "all memory");
  }
  if (job.tres_per_node) parts.push_back(*job.tres_per_node);
  if (job.tasks) parts.push_back(fmt::format("{} tasks", *job.tasks));
  if (job.memory_per_cpu) parts.push_back(fmt::format("{} MiB a CPU", *job.memory_per_cpu));
  if (job.tres_per_task) parts.push_back(*job.tres_per_task + " a task");
  if (job.partition) parts.push_back("partition " + *job.partition);
  if (job.account) parts.push_back("account " + *job.account);
  if (job.time_limit) parts.push_back(fmt::format("{} min", *job.time_limit));
  if (job.excluded_nodes && !job.excluded_nodes->empty()) {
    parts.push_back("without nodes " + fmt::format("{}", fmt::join(*job.excluded_nodes, ",")));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

class Simulator final {
 public:
  Simulator(const ClusterState& state, json::Interner& interner)
      : state_(state),
        api_(loop_, state.objects, interner),
        index_(state.self, [](const Uid&) {}),
        devices_(state.self.bridge, state.config.device_drivers) {
    out_.time = state.time;
    out_.self = state.self;
    slurm_.synced = state.slurm_jobs.has_value();
    slurm_.nodes_synced = state.slurm_nodes.has_value();
    slurm_.reachable = true;
    slurm_.full_as_of = kNow;
    if (!slurm_.synced) slurm_.why = "the file has no slurm.jobs" + std::string(kUnknown);
    know_volumes();
    know_devices();
    nodes_.set_self(state.self);
    for (const NodePtr& node : state.nodes) nodes_.on_node(nullptr, node);
    if (state.slurm_nodes) {
      for (const slurm::Node& node : *state.slurm_nodes) {
        nodes_.on_slurm_node(nullptr, std::make_shared<slurm::Node>(node));
      }
    }
    for (const PodPtr& pod : state.pods) {
      nodes_.on_pod(nullptr, pod);
      index_.on_pod(nullptr, pod);
      if (!index_.ours(*pod)) ++out_.foreign_pods;
    }
    if (state.slurm_jobs) {
      for (const slurm::Job& job : *state.slurm_jobs) {
        const auto shared = std::make_shared<const slurm::Job>(job);
        jobs_.insert_or_assign(job.id, shared);
        index_.on_job({nullptr, shared});
      }
    }
  }

  Simulation run() {
    std::vector<std::pair<Uid, std::vector<PodPtr>>> units;
    for (const Uid& unit : index_.all()) units.emplace_back(unit, index_.pods(unit));
    std::ranges::sort(units, [](const auto& a, const auto& b) {
      if (a.second.empty() != b.second.empty()) return b.second.empty();
      if (a.second.empty()) return a.first < b.first;
      const kube::Pod& x = *a.second.front();
      const kube::Pod& y = *b.second.front();
      return x.meta.key == y.meta.key ? a.first < b.first : ranks_before(x, y);
    });
    for (auto& [unit, pods] : units) {
      if (pods.empty()) {
        without_pods(unit, jobs_of(unit));
      } else {
        with_pods(unit, std::move(pods), jobs_of(unit));
      }
    }
    return std::move(out_);
  }

 private:
  void know_volumes() {
    Volumes& volumes = nodes_.volumes();
    for (const ObjectPtr& one : state_.claims) volumes.on_claim(nullptr, one);
    for (const ObjectPtr& one : state_.volumes) volumes.on_volume(nullptr, one);
    for (const ObjectPtr& one : state_.classes) volumes.on_class(nullptr, one);
    for (const ObjectPtr& one : state_.csi_nodes) volumes.on_csi_node(nullptr, one);
    for (const ObjectPtr& one : state_.attachments) volumes.on_attachment(nullptr, one);
    volumes.set_known(true);
  }
  void know_devices() {
    for (const ClassPtr& one : state_.device_classes) devices_.on_class(nullptr, one);
    for (const SlicePtr& one : state_.slices) devices_.on_slice(nullptr, one);
    for (const ClaimPtr& one : state_.device_claims) devices_.on_claim(nullptr, one);
    devices_.set_unknown({});
    nodes_.set_devices(&devices_);
  }

  // What the file lacks that decides about the pods that wait; empty: nothing.
  std::string lacks(const UnitView& view) const {
    for (const PodPtr& pod : view.pods) {
      if (!wants_node(*pod)) continue;
      if (!pod->claims.empty() && state_.claims.empty()) return "the file has no PersistentVolumeClaims";
      if (!needs_claim(*pod)) continue;
      if (state_.slices.empty()) return "the file has no ResourceSlices";
      for (const JobView& job : view.jobs) {
        if (runs(*job.job) && job.job->gres_detail.empty()) {
          return "the file does not say which devices Slurm job " + job.job->id.str() + " has (gres_detail)";
        }
      }
    }
    return {};
  }

  void add(SimulatedStep decision) {
    decision.unit = unit_name_;
    out_.decisions.push_back(std::move(decision));
  }

  void without_pods(const Uid& unit, const std::vector<JobView>& jobs) {
    unit_name_ = "unit " + unit.str();
    for (const JobView& view : jobs) {
      if (view.job->states.ended()) continue;
      add({.unit = {},
           .decision = "none",
           .pods = view.record.pods,
           .job = view.job->id,
           .node = {},
           .reason = {},
           .why = "none of its pods is left; the controllers cancel the job once the API server confirms that",
           .request = nullptr});
    }
  }

  void with_pods(const Uid& unit, std::vector<PodPtr> pods, std::vector<JobView> jobs) {
    const PodPtr first = pods.front();
    const auto group = group_of(*first);
    unit_name_ = group ? name_of_group(*group, first) : "pod " + first->meta.key.str();
    UnitView view;
    view.uid = unit;
    view.pods = std::move(pods);
    view.jobs = std::move(jobs);
    const auto waiting = std::ranges::find_if(view.pods, [](const PodPtr& pod) { return wants_node(*pod); });
    if (waiting != view.pods.end()) {
      Owners::Found root = api_.root_of(*waiting);
      if (std::holds_alternative<Root>(root)) {
        view.root = std::move(std::get<Root>(root));
      } else {
        view.root_problem = std::get<std::string>(root);
      }
    }
    view.labelled = labelled(view);
    UnitMemory memory;
    for (const JobView& job : view.jobs) memory.layouts.emplace(job.job->id, layout_of(*job.job));
    SlurmView slurm = slurm_;
    if (const std::string missing = lacks(view); slurm.synced && !missing.empty()) {
      slurm.synced = false;
      slurm.why = missing + std::string(kUnknown);
    }
    const UnitPlan plan = next_step(view, memory, slurm);
    const std::size_t before = out_.decisions.size();
    first_steps(plan);
    if (plan.marks.empty()) {
      last_steps(plan);
    } else {
      // Binding comes when the marks are written.
      for (const UnitPlan::Mark& mark : plan.marks) memory.marked[mark.pod->meta.uid] = {mark.job};
      last_steps(next_step(view, memory, slurm));
    }
    if (out_.decisions.size() == before) nothing(view);
  }

  UnitPlan next_step(const UnitView& view, UnitMemory& memory, const SlurmView& slurm) {
    return plan_unit(state_.config, state_.self, view, slurm, nodes_, memory, kNow, state_.time);
  }

  std::vector<JobView> jobs_of(const Uid& unit) const {
    return index_.jobs(unit, [this](JobId id) {
      const auto job = jobs_.find(id);
      return std::pair(job == jobs_.end() ? nullptr : job->second, kNow);
    });
  }

  // As Scheduler tells a job that a label names and that is none of ours.
  slurm::Knowledge labelled(const UnitView& view) const {
    for (const PodPtr& pod : view.pods) {
      const JobId job = label_of(*pod);
      if (!job || !wants_node(*pod) || index_.unit_of_job(job) != nullptr) continue;
      if (std::ranges::any_of(view.jobs, [job](const JobView& one) { return one.job->id == job; })) continue;
      const auto known = jobs_.find(job);
      if (known != jobs_.end() && !known->second->states.ended()) return slurm::Knowledge::kPresent;
    }
    return slurm::Knowledge::kGone;
  }

  void first_steps(const UnitPlan& plan) {
    for (const UnitPlan::Cancel& cancel : plan.cancels) {
      add({{}, "cancel", {}, cancel.job, {}, {}, cancel.why, nullptr});
    }
    if (plan.submit) add_request("submit", JobId{}, "no Slurm job stands for it yet: ", *plan.submit);
    for (const slurm::JobDescription& one : plan.more) {
      add_request("submit", JobId{}, "no Slurm job stands for it yet: ", one);
    }
    if (plan.update) {
      add_request("update", plan.update->job,
                  "the waiting job is no longer what is wanted: ", plan.update->description);
    }
    std::map<JobId, std::vector<PodPtr>> marks;
    for (const UnitPlan::Mark& mark : plan.marks) marks[mark.job].push_back(mark.pod);
    for (auto& [job, pods] : marks) {
      add({{}, "mark", names_of(pods), job, {}, {}, "the job stands for it: label and finalizer are written", nullptr});
    }
  }

  void add_request(const char* decision, JobId job, const std::string& why, const slurm::JobDescription& description) {
    const auto record = parse_record(description.admin_comment.value_or(""));
    add({{},
         decision,
         record ? record->pods : std::vector<NamespacedName>(),
         job,
         {},
         {},
         why + describe(description),
         json::parse(slurm::encode_update(description))});
  }

  void last_steps(const UnitPlan& plan) {
    for (const UnitPlan::Bind& bind : plan.binds) {
      nodes_.usage().assume(bind.pod, bind.node->meta.key.name, bind.job, bind.restarts);
      add({{},
           "bind",
           {bind.pod->meta.key},
           bind.job,
           bind.node->meta.key.name,
           {},
           "the job is RUNNING there and the pod fits",
           nullptr});
    }
    for (const Waiting& waiting : plan.waiting) {
      if (waiting.pods.empty()) continue;
      const JobId job = label_of(*waiting.pods.front());
      add({{}, "wait", names_of(waiting.pods), job, {}, waiting.reason, waiting.message + waiting.detail, nullptr});
    }
  }

  void nothing(const UnitView& view) {
    const bool gated = std::ranges::any_of(view.pods, [](const PodPtr& pod) {
      return !pod->bound() && !pod->terminal() && !pod->deleting() && !pod->scheduling_gates.empty();
    });
    add({{},
         "none",
         names_of(view.pods),
         label_of(*view.pods.front()),
         {},
         {},
         gated ? "it has scheduling gates; no job is submitted before they are gone"
               : "none of its pods waits: they have nodes, are going, or are over",
         nullptr});
  }

  const ClusterState& state_;
  ManualLoop loop_;
  SimulatedApi api_;
  UnitIndex index_;
  DeviceLedger devices_;
  NodeTable nodes_;
  SlurmView slurm_;
  std::map<JobId, std::shared_ptr<const slurm::Job>> jobs_;
  std::string unit_name_;
  Simulation out_;
};

std::string_view paint_of(const SimulatedStep& decision) {
  if (decision.decision == "wait") return colour::kYellow;
  if (decision.decision == "cancel") return colour::kRed;
  return decision.decision == "none" ? std::string_view() : colour::kGreen;
}

std::string pods_text(const SimulatedStep& decision) {
  if (decision.pods.empty()) return {};
  std::string text = decision.pods.front().name;
  if (decision.pods.size() > 1) text += fmt::format(" +{}", decision.pods.size() - 1);
  return text;
}

}  // namespace

Simulation simulate(const ClusterState& state, json::Interner& interner) {
  return Simulator(state, interner).run();
}

std::string to_text(const Simulation& simulation, bool colours) {
  TextTable table({"UNIT", "DECISION", "PODS", "JOB", "NODE", "WHY"});
  for (const SimulatedStep& d : simulation.decisions) {
    table.add({d.unit,
               {d.decision, paint_of(d)},
               pods_text(d),
               d.job ? d.job.str() : "",
               d.node,
               cut_text(d.reason.empty() ? d.why : d.reason + ": " + d.why, kWhyWidth)});
  }
  std::string text =
      fmt::format("at {}, as scheduler {}\n\n", print_rfc3339(simulation.time), plain_text(simulation.self.bridge));
  text += table.empty() ? "no pod of this scheduler and no job of its\n" : table.str(colours);
  if (simulation.foreign_pods > 0) {
    text += fmt::format("\n{} pod{} of other schedulers only fill{} nodes\n", simulation.foreign_pods,
                        simulation.foreign_pods == 1 ? "" : "s", simulation.foreign_pods == 1 ? "s" : "");
  }
  return text;
}

json::Value to_json(const Simulation& simulation) {
  json::Array decisions;
  for (const SimulatedStep& d : simulation.decisions) {
    json::Array pods;
    for (const NamespacedName& pod : d.pods) pods.push_back(json::Object{{"namespace", pod.ns}, {"name", pod.name}});
    json::Object object{{"unit", d.unit}, {"decision", d.decision}, {"pods", std::move(pods)}, {"why", d.why}};
    if (d.job) object["job"] = d.job.value;
    if (!d.node.empty()) object["node"] = d.node;
    if (!d.reason.empty()) object["reason"] = d.reason;
    if (!d.request.is_null()) object["request"] = d.request;
    decisions.push_back(std::move(object));
  }
  return json::Object{{"time", print_rfc3339(simulation.time)},
                      {"scheduler", simulation.self.bridge},
                      {"cluster", simulation.self.cluster},
                      {"otherSchedulersPods", simulation.foreign_pods},
                      {"decisions", std::move(decisions)}};
}

}  // namespace bascule::bridge

// The inside of plan_unit: one planning step over one unit. unit_plan.cpp has the frame and jobs that wait,
// unit_submit.cpp pods that no job stands for, unit_bind.cpp jobs that run.
#pragma once

#include <algorithm>
#include <unordered_map>

#include "bridge/unit_jobs.hpp"
#include "bridge/unit_plan.hpp"

namespace bascule::bridge {

class UnitPlanner final {
 public:
  UnitPlanner(const Config& config, const Identity& self, const UnitView& unit, const SlurmView& slurm, NodeView& nodes,
              UnitMemory& memory, TimePoint now, WallTime wall)
      : config_(config),
        self_(self),
        unit_(unit),
        slurm_(slurm),
        nodes_(nodes),
        memory_(memory),
        now_(now),
        wall_(wall) {}

  UnitPlan run();

 private:
  void wait(const std::vector<PodPtr>& pods, std::string reason, std::string message) {
    plan_.waiting.push_back({std::move(reason), std::move(message), {}, pods});
  }
  void wake_at(TimePoint when) { plan_.wake = plan_.wake ? std::min(*plan_.wake, when) : when; }

  // unit_plan.cpp
  std::uint32_t minimum() const { return unit_.root && unit_.root->gang ? unit_.root->gang->minimum : 1; }
  std::size_t done() const;
  // Members that hold a node and are not going, or are about to have one, by this job.
  static std::size_t placed_by(const HeldJob& held) {
    return held.staying() + (runs(*held.view->job) ? held.pods.size() : 0);
  }
  const slurm::Job* find_job(JobId id) const;  // of the unit's; nullptr: it has none of that id

  void cancel_surplus();
  void with_job(HeldJob& held);
  void mark(const PodPtr& pod, const slurm::Job& job);
  bool is_marked(const PodPtr& pod, JobId job) const;
  void pending(HeldJob& held);
  void follow(const HeldJob& held, Waiting& waiting, std::size_t others);
  std::vector<PodPtr> take_joining(const JobView& view, const std::vector<PodPtr>& held, std::size_t others);
  bool can_update() const {
    return unit_.root && slurm_.reachable && slurm_.nodes_synced && !memory_.submitting && !plan_.update &&
           (!memory_.hold_until || now_ >= *memory_.hold_until);
  }
  bool may_write_back(const JobView& view) const;
  void write_back(const JobView& view);
  void ask_for(const JobView& view, slurm::JobDescription change, std::string& message);
  static bool differs(const JobRecord& known, const JobRecord& wanted) {
    return wanted.spec != known.spec || wanted.uids != known.uids;
  }

  // unit_submit.cpp
  struct Wanted {
    slurm::JobDescription description;  // with the record in its comment
    JobRecord record;
  };
  static void put_record(Wanted& wanted);
  static void without_priority(Wanted& wanted, const JobRecord& known);
  void without_job(const std::vector<PodPtr>& pods);
  std::string foreign_job() const;
  void submit_more(std::vector<PodPtr> pods);
  static slurm::JobDescription submit_of(Wanted wanted);
  std::string why_refused(const std::vector<PodPtr>& pods) const;
  bool inherit(const std::vector<PodPtr>& pods);
  bool doubt_settled(const std::vector<PodPtr>& pods);
  bool unlisted_settled(const std::vector<PodPtr>& pods);
  bool gang_allows(const std::vector<PodPtr>& pods, std::size_t members);
  std::string group_name() const { return unit_.root->kind + " " + unit_.root->key.str(); }
  std::string too_few(std::size_t members) const {
    return std::to_string(members) + " of the " + std::to_string(minimum()) + " pods that must start together";
  }
  bool ended_lately(const std::vector<PodPtr>& pods);
  std::vector<std::string> shunned(const Candidates& candidates, std::size_t least) const;
  JobRecord record_of(const std::vector<PodPtr>& pods, std::uint32_t cpus, std::optional<TaskSize> task) const;
  std::expected<Wanted, Waiting> describe(std::vector<PodPtr> pods, std::size_t elsewhere,
                                          const JobView* job = nullptr);

  // unit_bind.cpp
  struct Seats {
    std::vector<UnitPlan::Bind> binds;
    std::vector<PodPtr> unready;       // that wait for volumes
    std::vector<std::string> unmade;   // hosts of these
    std::vector<PodPtr> absent;        // whose devices on their host are away, or not known
    std::vector<std::string> without;  // hosts of these
    std::string absence;               // the last one's
    std::vector<PodPtr> denied;        // that the API server said no to, and will not be asked about now
    std::vector<std::string> refused;  // hosts
    std::string problem;               // the last one's
    bool unknown = false;              // the last one is that Slurm does not know a job
    bool firm = false;                 // one is refused for another cause than that, or:
    bool ending = false;               // it may pass: a pod whose job is over, or not known, is still on a refused host
  };
  void running(HeldJob& held);
  Seats seats(const HeldJob& held);
  bool needs_volumes(const PodPtr& pod, const kube::Node& node, std::string& refusal);
  bool wait_for_volumes(const HeldJob& held, const Seats& seats);
  bool knows_devices(const HeldJob& held, const Seats& seats);
  bool holds_devices(JobId id) const;
  void drop_device_claims(const std::vector<PodPtr>& waiting);
  bool knows_layout(const HeldJob& held);
  std::expected<WantedClaim, ClaimProblem> choose_devices(const HeldJob& held, std::size_t i, const kube::Node& node,
                                                          std::set<DeviceId>& taken) const;
  const kube::Pod* claimless_on(const std::string& node, const kube::Pod& pod) const;
  void take_back_hosts(const std::vector<PodPtr>& waiting);
  std::string still_there(const std::string& node, bool& unknown, const kube::Pod* itself = nullptr) const;
  std::string bound_elsewhere(const kube::Pod& pod, const kube::Node& node) const;
  const UnitMemory::Denial* denial_of(const PodPtr& pod, JobId job) const;
  bool may_try(const UnitMemory::Denial& denial, const slurm::Job& job);
  void tell_denial(const slurm::Job& job, const std::vector<PodPtr>& pods, const UnitMemory::Denial& denial);
  bool denied(const HeldJob& held, const Seats& seats);
  bool shares_with_planned(const HeldJob& held, const std::vector<UnitPlan::Bind>& binds) const;
  bool knows_neighbours(const HeldJob& held, const std::vector<UnitPlan::Bind>& binds);
  void bind(const HeldJob& held, std::vector<UnitPlan::Bind> binds);
  void misfit(const HeldJob& held, const Seats& seats);
  void give_back(const HeldJob& held, const std::vector<std::string>& hosts, const std::string& why);

  const Config& config_;
  const Identity& self_;
  const UnitView& unit_;
  const SlurmView& slurm_;
  NodeView& nodes_;
  UnitMemory& memory_;
  TimePoint now_;
  WallTime wall_;
  std::unordered_map<JobId, const JobView*> by_id_;
  UnitJobs jobs_;
  std::size_t placed_ = 0;  // members that hold a node, or are about to, and those that are done
  UnitPlan plan_;
};

}  // namespace bascule::bridge

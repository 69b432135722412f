// What the scheduler does next for one unit. Pure: the whole state of the unit goes in, with the time; the next steps
// come out.
//
//   uncovered pods --submit--> PENDING --Slurm--> RUNNING --bind each pod--> done
//        ^                                           |
//        +------ ended, refused, misfit: wait -------+
//
// A gang is submitted when its minimum is there, for as many nodes as it has pods, or as few as its minimum; later pods
// join the job while it waits, and get one of their own after that. (unit_jobs.hpp says which pod counts on which job.)
//
// Source of truth: the job's record in Slurm (record.hpp) says whose it is; the pod's nodeName says where it runs.
// Labels and conditions are for people and for the pod sync. Invariants: a pod counts on one live job, jobs nobody
// counts on are cancelled; a pod is bound only to a node of a job seen RUNNING within kConfirmWithin; the first pods of
// a gang are bound when all of them can be; nobody is bound beside a pod whose job was not seen RUNNING after his own
// was, for Slurm may have given the node from that one to this; a submit whose answer was lost is not repeated until a
// table asked for kDoubtSettles later lacks the job; nothing is decided from what is unknown.
#pragma once

#include <expected>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "bridge/claim_plan.hpp"
#include "bridge/description.hpp"
#include "bridge/node_usage.hpp"
#include "bridge/pace.hpp"
#include "bridge/record.hpp"
#include "bridge/unit.hpp"
#include "bridge/volumes.hpp"
#include "slurm/mirror.hpp"

namespace bascule::bridge {

// slurmctld may act on a request long after slurmrestd gave up waiting for it, and so may the API server.
inline constexpr Duration kDoubtSettles = std::chrono::seconds(20);
inline constexpr Duration kConfirmWithin = std::chrono::seconds(3);
// How long a running job may hold a node that Kubernetes refuses before it is given back.
inline constexpr Duration kMisfitPatience = std::chrono::seconds(30);
// How long a running job may hold a node while a volume is made there, or while a pod whose job is over still ends
// there, or a claim of its pod's name, or while it is not known which devices are there.
inline constexpr Duration kVolumePatience = std::chrono::minutes(10);
inline constexpr Duration kEndPatience = std::chrono::minutes(10);
inline constexpr Duration kLookAgain = std::chrono::minutes(2);
// How long a waiting pod's label may name a job that is above all that Slurm lists before it counts as none.
inline constexpr Duration kUnlistedSettles = std::chrono::seconds(60);
// How long Slurm is asked not to use a host again that Kubernetes has refused, while there are others; and how long a
// gang that runs leaves such a host of its own alone.
inline constexpr Duration kRefusedFor = std::chrono::minutes(10);
// How old what Slurm last said of a waiting job may be before its pods say that Slurm is away: thousands of them do.
inline constexpr Duration kAwayIsTold = std::chrono::minutes(5);
// How long a binding that was done may stay unseen, while changes of pods are heard, before it counts as none: an etcd
// that was restored from a backup has forgotten it.
inline constexpr Duration kBindingSeenWithin = std::chrono::minutes(10);
// How seldom a request that keeps changing is updated at most, and after how long without one the next goes at once.
inline constexpr Duration kUpdateAtMost = std::chrono::minutes(1);
inline constexpr Duration kUpdateQuiet = std::chrono::minutes(5);
// Between jobs that end before their pods could run, at most.
inline constexpr Duration kLongestEndPause = std::chrono::seconds(60);

struct JobView {
  std::shared_ptr<const slurm::Job> job;
  JobRecord record;
  TimePoint confirmed_at{};                  // when its state was last confirmed by slurmctld
  bool overwritten = false;                  // the record is remembered: its comment is other words by now
  std::optional<TimePoint> started_by = {};  // ClusterMirror::started_by()
};

struct UnitView {
  Uid uid;
  std::vector<PodPtr> pods;                             // sorted by namespace and name, all phases
  bool pods_followed = true;                            // Informer::following() of the pods
  std::optional<Root> root;                             // nullopt: not known
  std::string root_problem;                             // why not
  std::vector<JobView> jobs;                            // of this unit: record names it and our bridge and cluster
  std::optional<JobView> inherits;                      // requeued, of a pod whose successor this single pod is
  slurm::Knowledge labelled = slurm::Knowledge::kGone;  // of a job that a waiting pod's label names and `jobs` lacks
  std::shared_ptr<const slurm::Job> foreign = {};       // that job, where it is there
};

struct SlurmView {
  bool synced = false;  // a full job table of this leadership is in
  bool nodes_synced = false;
  bool reachable = false;
  std::string why;                // when not reachable
  TimePoint full_as_of{};         // when the last full table was asked for
  bool listed_since_away = true;  // ClusterMirror::listed_since_away()
};

// Which Kubernetes nodes Slurm may use for pods that share a job: each must fit any of them, since Slurm does not know
// them apart.
struct Candidates {
  std::string excluded;  // hostlist of Slurm names: in the partition, but not for these pods
  std::size_t usable = 0;
  std::string why_none;  // "5 nodes: 3 do not match ..., 2 have the taint ..."
  // The pods ask for GPUs of a device plugin, and Slurm counts none on any usable node (uncounted_gpus()).
  bool uncounted_gpus = false;
};

// A pod of ours on a node, and what is known of the job that gave it the node.
struct Neighbour {
  enum class Hold : std::uint8_t {
    kUnknown,
    kHolds,  // as of `confirmed_at`
    kOver,   // Slurm may have given the node away; the pod has its grace period still, or Slurm lost its job
  };
  PodPtr pod;
  JobId job;
  std::uint32_t restarts = 0;  // of the job, before it gave the node
  Hold hold = Hold::kUnknown;
  TimePoint confirmed_at{};
};

// What the plan needs to know of nodes. Implemented by NodeTable (node_table.hpp).
class NodeView {
 public:
  virtual ~NodeView() = default;
  // `pods` is not empty. The reference holds until the next call.
  virtual const Candidates& candidates(const std::vector<PodPtr>& pods, const std::string& partition) = 0;
  // By the name in Slurm; nullptr when there is no such Kubernetes node, or it is not sure which is meant.
  virtual NodePtr by_slurm_name(const std::string& name) const = 0;
  // Why there is none.
  virtual std::string absence(const std::string& /*slurm_name*/) const {
    return "is not a node of this Kubernetes cluster";
  }
  // Empty: nothing is amiss with the pod's claims before a node is chosen.
  virtual std::string volume_problem(const kube::Pod& pod) const = 0;
  // What its claims need on this node before it is bound there.
  virtual Volumes::Binding volumes_on(const kube::Pod& pod, const kube::Node& node) const = 0;
  // Empty: the pod may be bound there now, with those beside it that are about to be.
  virtual std::string refusal(const kube::Pod& pod, const kube::Node& node,
                              const std::vector<PodPtr>& beside) const = 0;
  // By the name in Kubernetes.
  virtual std::vector<Neighbour> neighbours(const std::string& /*node*/) const { return {}; }
  // Devices and the claims for them; nullptr: none are kept, and no pod gets any.
  virtual const DeviceLedger* devices() const { return nullptr; }
  virtual const slurm::Node* slurm_node(const std::string& /*name*/) const { return nullptr; }
};

// What this process remembers of a unit between plans. Losing it (a restart) costs time, never correctness.
struct UnitMemory {
  // The API server's no to a change of a pod, to its volumes or to its claim: by an admission policy, a quota, or for
  // want of rights.
  struct Denial {
    enum class What : std::uint8_t {
      kMark,
      kBinding,
      kVolume,
      kClaimRefused,
      kClaim,  // not refused: another claim is in the way, and may go
    };
    What what = What::kMark;
    std::string why;
    TimePoint since{}, last{};
    bool of_claim() const noexcept { return what == What::kClaimRefused || what == What::kClaim; }
  };
  // What Slurm was asked to change of a job that waits.
  struct Asked {
    Pace pace;            // each time it was asked, whatever it said
    std::string refused;  // UnitPlan::Update::fingerprint of what it did not accept
    std::string why;
  };
  bool submitting = false;              // a submit is under way
  std::optional<TimePoint> doubt;       // a submit ended at this time without a clear answer
  std::optional<TimePoint> hold_until;  // after a refusal or error
  std::string hold_why;
  std::uint32_t failures = 0;                  // in a row
  std::optional<TimePoint> submitted;          // the last job that Slurm took
  std::map<JobId, TimePoint> volumes, absent;  // running jobs that cannot be used yet, since when
  struct Misfit {
    TimePoint since;                     // of whatever cause
    std::optional<TimePoint> firm = {};  // one that does not pass by itself, as the end of another pod does
  };
  std::map<JobId, Misfit> misfits;                               // running jobs whose nodes are refused
  std::map<std::pair<JobId, std::uint32_t>, TimePoint> running;  // jobs, with their restarts: when first seen RUNNING
  std::map<JobId, TimePoint> ended;                              // jobs that are over: when first seen so
  std::optional<TimePoint> unlisted_since;                       // labels name a job that may or may not be
  std::map<std::string, TimePoint> refused;                      // hosts jobs were given back for, and until when
  // Hosts of running jobs that Kubernetes kept refusing, and until when they are not asked about again.
  std::map<std::pair<JobId, std::string>, TimePoint> given_up;
  struct Marked {
    JobId job;
    std::string version = {};  // of the pod since; empty: not known
  };
  std::map<Uid, Marked> marked;  // label and finalizer written, maybe not seen back yet
  struct Binding {
    NodeName node;
    TimePoint since{};
    bool unsure = false;  // the call failed: before the next plan the API server is asked whether it was done
  };
  std::map<Uid, Binding> binding;  // under way or done, not seen back yet
  // One that failed and that the API server had not done when it was asked: it may be on its way still. Until it must
  // have come the pod keeps its place on that node and gets none on another.
  struct Doubt {
    NodeName node;
    TimePoint until{};
  };
  std::map<Uid, Doubt> doubted;
  std::map<Uid, Denial> denied;  // of waiting pods
  // slurmctld was asked about this job alone, and its answer is good until then: one that takes longer than
  // kConfirmWithin would else be old whenever it comes, and nothing would ever be bound.
  std::map<JobId, TimePoint> confirmed;
  std::optional<TimePoint> bind_after;    // a binding was refused
  std::optional<TimePoint> layout_asked;  // first, and in vain so far
  std::map<JobId, JobLayout> layouts;     // of running jobs whose pods ask for devices
  std::map<JobId, std::string> untold;    // running jobs of which Slurm said no layout, and why
  std::map<JobId, Asked> updates;
  std::map<JobId, std::string> cancelling;  // Slurm was asked to end these and did not answer: they may end yet; why
  std::optional<TimePoint> failing;         // the API server fails to do what the plan says, since then

  // Where no pod waits, nothing in it is worth being kept: in a large cluster most units are so, for days.
  bool settled() const noexcept {
    return !submitting && !doubt && failures == 0 && !failing && marked.empty() && binding.empty() && doubted.empty() &&
           cancelling.empty() && denied.empty() && refused.empty() && given_up.empty() && misfits.empty() &&
           absent.empty() && volumes.empty() && layouts.empty() && untold.empty();
  }
  // The same where pods wait for a job that Slurm has not started: nor has anything a pace that must be kept.
  bool idle(TimePoint now) const noexcept {
    return settled() && running.empty() && ended.empty() && updates.empty() && confirmed.empty() && !unlisted_since &&
           !bind_after && !layout_asked && (!hold_until || now >= *hold_until) &&
           (!submitted || now - *submitted > kLongestEndPause);
  }
  void deny(const Uid& pod, Denial::What what, std::string why, TimePoint at) {
    Denial& denial = denied[pod];
    if (denial.why.empty() || denial.what != what) denial.since = at;
    denial.what = what;
    denial.why = std::move(why);
    denial.last = at;
  }
};

struct Waiting {
  std::string reason;   // CamelCase, for PodScheduled=False
  std::string message;  // a sentence that changes only when the state does
  std::string detail;   // more of it, that may change often
  std::vector<PodPtr> pods = {};
  bool passing = false;        // says no more than that Slurm has not looked yet; told only when it lasts
  std::int64_t submitted = 0;  // when the job was that they wait for; 0: there is none, or it is not known
};

struct UnitPlan {
  struct Cancel {
    JobId job;
    std::string why;
  };
  struct Update {
    JobId job;
    slurm::JobDescription description;
    std::string fingerprint;  // for UnitMemory::Asked, should Slurm refuse it
  };
  struct Mark {
    PodPtr pod;
    JobId job;
  };
  struct Bind {
    PodPtr pod;
    NodePtr node;
    JobId job;
    std::uint32_t restarts = 0;                    // of the job, before this start
    std::int64_t submitted = 0;                    // when the job was; 0: not known
    std::optional<WantedClaim> device_claim = {};  // must stand before the pod is bound
    bool all_or_none = false;                      // with all others of its job that are to be bound
  };
  struct Volume {
    PodPtr pod;
    Volumes::Binding binding;
  };
  std::optional<slurm::JobDescription> submit;
  std::vector<slurm::JobDescription> more;  // for others of its pods, after that one, as long as Slurm takes them
  std::optional<Update> update;
  std::vector<Cancel> cancels;
  std::vector<Mark> marks;
  std::vector<Bind> binds;
  std::vector<Uid> unseen;             // pods whose binding counts as none from now on
  std::vector<Volume> volumes;         // have them made before their pods are bound
  std::vector<ClaimPtr> device_drops;  // claims of pods that wait again: their devices are Slurm's to give
  std::vector<JobId> layouts;          // ask slurmctld what these jobs hold, for UnitMemory::layouts
  std::vector<JobId> confirms;         // ask slurmctld about these jobs before anything of theirs is bound
  std::vector<JobId> looks;            // look at the states of these before anything is bound beside their pods
  bool look_soon = false;              // what is known of Slurm is not enough: the mirror should look again
  std::vector<Waiting> waiting;        // each pod that waits is in one of them
  std::optional<TimePoint> wake;       // plan again at this time at the latest
  bool waits_for_nodes = false;        // plan again when nodes change
};

// May change `memory` only in its times (doubt when settled), given_up, failures (over) and what has been seen back.
UnitPlan plan_unit(const Config& config, const Identity& self, const UnitView& unit, const SlurmView& slurm,
                   NodeView& nodes, UnitMemory& memory, TimePoint now, WallTime wall);

// The reason and sentence for a pod whose job waits in Slurm.
Waiting describe_pending(const slurm::Job& job);

}  // namespace bascule::bridge

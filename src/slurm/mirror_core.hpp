// The decisions of ClusterMirror: what to ask next and when, and what an answer means. Pure: answers and the time go
// in, questions and changes come out.
//
// Invariants: changes of one record form a chain (each one's `before` is the last one's `after`). A job is forgotten
// only after two full tables in a row lacked it, both asked for at least `settle` after slurmctld began to answer and
// after the last disturbance (a table that suddenly lacked more than half of the live jobs, a table older than the one
// before). For one that had ended that is enough: slurmctld purges it after MinJobAge. For any other a direct question,
// asked after both, must have been answered with 2017 too: one question a job, eight at once.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "slurm/client.hpp"
#include "slurm/mirror.hpp"
#include "slurm/mirror_table.hpp"

namespace bascule::slurm {

// slurmctld saves its state each five seconds: killed later, it no longer loses a job. By our own clock since we know
// of it; Slurm's may be another.
inline constexpr Duration kSurelySaved = std::chrono::seconds(20);

// Ended jobs leave by themselves, after MinJobAge.
inline bool stays(const Job& job) {
  return !job.states.ended();
}
inline bool stays(const Node&) {
  return true;
}

// Else the id was given anew, or the job was queued again.
inline bool same_one(const Job& a, const Job& b) {
  return a.submit_time == b.submit_time;
}
inline bool same_one(const Node&, const Node&) {
  return true;
}

class MirrorCore final {
 public:
  enum class Kind : std::uint8_t { kStates, kJobs, kJob, kNodes, kNode };
  struct Ask {
    Kind kind = Kind::kStates;
    JobId job = {};
    std::string node = {};
    std::vector<JobId> jobs = {};  // of kStates: only these; none: all
    std::int64_t since = 0;        // of kJobs and kNodes
    std::uint32_t epoch = 0;       // of kJob and kNode: the one in which enough tables lacked it; 0: they did not
    TimePoint at{};
    std::uint64_t serial = 0;
    bool names(JobId id) const { return jobs.empty() || std::ranges::find(jobs, id) != jobs.end(); }
  };
  using JobTable = MirrorTable<JobId, Job, &stays, &same_one>;
  using NodeTable = MirrorTable<std::string, Node, &stays, &same_one>;

  MirrorCore(MirrorOptions options, TimePoint now);

  // What to ask now. Each question must be answered by exactly one of the calls below.
  std::vector<Ask> next(TimePoint now);
  // When next() may have something, if nothing happens before.
  TimePoint wake(TimePoint now) const;

  void answered(const Ask& ask, TimePoint now, const std::vector<JobBrief>& states);
  void answered(const Ask& ask, TimePoint now, JobList table);
  void answered(const Ask& ask, TimePoint now, std::optional<Job> job);
  void answered(const Ask& ask, TimePoint now, NodeList table);
  void answered(const Ask& ask, TimePoint now, std::optional<Node> node);
  void failed(const Ask& ask, TimePoint now, std::string why);
  // The caller stopped; nothing is known.
  void abandoned(const Ask& ask);

  // A question the caller asks on its own; to be answered like those of next().
  Ask direct(JobId id, TimePoint now);
  void learn(Job job, TimePoint now);
  void poke(TimePoint now);
  void poke_nodes(TimePoint now) { nodes_wanted_ = std::min(nodes_wanted_, now + std::chrono::seconds(1)); }
  void expect_start(TimePoint now);
  // What Slurm's times mean here.
  void set_clock(TimePoint now, WallTime wall) { clock_ahead_ = wall.time_since_epoch() - now.time_since_epoch(); }
  void look_at(const std::vector<JobId>& ids);
  void want_full(TimePoint now);
  void want(JobId id) { wanted_.insert(id); }
  void set_wants_detail(ClusterMirror::WantsDetail wants) { wants_detail_ = std::move(wants); }

  std::vector<JobTable::Change> take_job_changes() { return jobs_.take_changes(); }
  std::vector<NodeTable::Change> take_node_changes() { return nodes_.take_changes(); }

  const JobTable& jobs() const noexcept { return jobs_; }
  const NodeTable& nodes() const noexcept { return nodes_; }
  Knowledge knowledge(JobId id) const noexcept;
  JobId highest() const noexcept;
  bool synced() const noexcept { return synced_; }
  bool nodes_synced() const noexcept { return nodes_synced_; }
  bool reachable() const noexcept { return reachable_; }
  const std::string& why_unreachable() const noexcept { return why_; }
  TimePoint full_as_of() const noexcept { return full_as_of_; }
  bool listed_since_away() const noexcept { return full_as_of_ > away_at_; }
  bool may_be_lost(JobId id, TimePoint now) const noexcept {
    const auto* entry = jobs_.entry(id);
    if (!listed_since_away()) return true;
    if (entry == nullptr) return false;
    return entry->lost || now < entry->first_at + kSurelySaved || now > entry->confirmed_at + kSurelySaved;
  }
  // The job runs as its record says, and had started so when the answer came in that said first that it runs: that of a
  // cheap look, which its record may be some time behind. nullopt: not known.
  std::optional<TimePoint> started_by(JobId id) const noexcept;
  TimePoint nodes_as_of() const noexcept { return nodes_as_of_; }
  // Serials of the last trusted full table's question, and of the last question at all.
  std::uint64_t full_serial() const noexcept { return full_serial_; }
  std::uint64_t last_serial() const noexcept { return serial_; }

 private:
  Ask make(Kind kind, TimePoint now);
  Ask make_job(JobId id, TimePoint now);
  void good(TimePoint now);
  void disturb(TimePoint now);
  bool believe(const Ask& ask, TimePoint now, const JobList& table);
  // `entry`: what is known of the job; nullptr: nothing.
  void note_start(const JobBrief& brief, const JobTable::Entry* entry, TimePoint now);
  void check_start(const Job& job);
  void trusted_table(const Ask& ask, TimePoint now, std::uint32_t highest);
  bool take_state(const JobBrief& brief, const std::shared_ptr<const Job>& known, const Ask& ask, TimePoint now);
  void forget_unlisted(const std::vector<JobBrief>& states);
  void want_jobs(const std::vector<JobId>& ids, TimePoint now);
  void forget_job(JobId id);
  void remember_gone(JobId id);
  Duration pace(TimePoint now) const;
  void look_soon(TimePoint now);
  std::vector<JobId> to_look_at(TimePoint now);
  void take_unnamed(const Ask& ask, TimePoint now);
  void foresee(TimePoint now);
  void start_is_due(TimePoint now);
  TimePoint full_due() const;
  TimePoint nodes_due() const;
  TimePoint close_due() const noexcept;
  bool asking() const noexcept;
  std::vector<Ask> questions(TimePoint now);
  // An answer to this question tells of a change that the last table cannot have had.
  void note_change(const Ask& ask, TimePoint now) noexcept {
    if (ask.at >= full_done_) changed_since_table_ = std::min(changed_since_table_, now);
  }
  // Is its answer evidence of absence? Not while an older question is open: slurmctld may be about to pause.
  bool counts(const Ask& ask) const noexcept;

  MirrorOptions options_;
  ClusterMirror::WantsDetail wants_detail_;
  JobTable jobs_;
  NodeTable nodes_;
  std::uint64_t serial_ = 0;
  std::uint32_t epoch_ = 1;  // changes with every disturbance

  bool reachable_ = false;
  bool failing_ = false;  // the last call failed: only probes until one is answered
  bool synced_ = false;
  bool nodes_synced_ = false;
  std::string why_ = "slurmrestd has not answered yet";
  Duration back_off_{};
  TimePoint good_since_;
  TimePoint retry_at_;
  TimePoint count_from_;  // tables asked for earlier are no evidence of absence
  bool doubted_ = false;  // a table did not look right: none is trusted that was asked for before count_from_

  std::map<std::uint64_t, TimePoint> open_;  // questions of next() without an answer yet
  bool jobs_asked_ = false;
  bool nodes_asked_ = false;
  std::set<JobId> wanted_;  // to be asked about one by one
  std::unordered_set<JobId> asked_jobs_;
  // States that differed from what is known and were asked about: not again for the same words, should the two
  // endpoints ever disagree for good.
  std::unordered_map<JobId, JobStates> asked_about_;
  // Of looks that said first that a job runs: when the answer was in, and the restarts it had had before.
  struct Started {
    TimePoint by;
    std::uint32_t restarts = 0;
  };
  std::unordered_map<JobId, Started> started_;
  std::set<std::string> wanted_nodes_;
  std::unordered_set<std::string> asked_nodes_;

  std::set<JobId> unconfirmed_;  // somebody wants their states confirmed
  // Jobs that wait and may start before others: those submitted last, by when, and those of the highest priority.
  std::map<JobId, TimePoint> young_;
  std::vector<JobId> first_;
  std::set<TimePoint> starts_;  // when Slurm expects external jobs to start; the next ones
  TimePoint start_expected_at_ = TimePoint::min();
  Duration clock_ahead_{};  // of the wall clock
  TimePoint poked_at_ = TimePoint::min();
  TimePoint changed_at_ = TimePoint::min();
  // At states: of all jobs, and of a few, for a look at all costs slurmctld more the more jobs there are.
  struct Look {
    bool asked = false;
    TimePoint next{};                   // when it is wanted
    TimePoint free = TimePoint::min();  // until then the ones before have cost enough
    Duration cost{};
    TimePoint due() const noexcept { return std::max(next, free); }
    void answered(const Ask& ask, TimePoint now, Duration rest) noexcept;
  };
  Look look_, close_look_;
  Look& look_of(const Ask& ask) noexcept { return ask.jobs.empty() ? look_ : close_look_; }
  TimePoint full_wanted_;  // max: not before the regular one
  TimePoint full_done_ = TimePoint::min();
  TimePoint nodes_wanted_;
  TimePoint nodes_done_ = TimePoint::min();
  // Of a table. One that came late is not costly: slurmctld was away for a while.
  struct Cost {
    Duration last{}, usual{};
    void take(Duration now) { usual = std::min(std::exchange(last, now), now); }
  };
  Cost full_cost_, nodes_cost_;
  Duration job_cost_ = std::chrono::milliseconds(3);

  std::int64_t jobs_since_ = 0;
  std::int64_t jobs_newest_ = 0;  // the newest last_update seen
  std::int64_t nodes_since_ = 0;
  TimePoint changed_since_table_ = TimePoint::max();  // when a change of states since the last table became known
  TimePoint jobs_whole_{};                            // when a table last came whole
  TimePoint nodes_whole_{};
  TimePoint full_as_of_ = TimePoint::min();
  TimePoint away_at_ = TimePoint::min();  // when it last stopped answering
  TimePoint nodes_as_of_ = TimePoint::min();
  std::uint64_t full_serial_ = 0;
  // The highest ids of the last two counted tables: an id not above them that neither had is in use no more.
  std::uint32_t highest_ = 0;
  std::uint32_t highest_before_ = 0;
  std::uint32_t counted_tables_ = 0;  // in this epoch
  // Ids forgotten in this epoch; bounded, oldest out first.
  std::unordered_set<JobId> gone_;
  std::deque<JobId> gone_order_;
};

}  // namespace bascule::slurm

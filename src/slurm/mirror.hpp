// One Slurm cluster in memory, refreshed by one adaptive poll, telling subscribers what changed. No caller polls for
// itself. The decisions (what to ask next and when, what an answer means) are slurm/mirror_core.hpp, a pure state
// machine; this is the driver.
//
// Two kinds of look: the full table (jobs/, nodes/), and the cheap one (jobs/state/, then job/{id} for those that
// changed and whose details somebody waits for). Right after poke() or a change it looks every few ten milliseconds,
// then ever less often, down to `rest_interval`. A look costs slurmctld time, the more the more jobs there are, so both
// are spaced by their own cost too. Where that holds the cheap one back, one is taken meanwhile at the few jobs that
// are likely to start next, if somebody waits for starts: those that were just submitted, and those of the highest
// priority.
//
// Unknown stays unknown: an error, an empty or truncated answer, or a controller that has just come up never makes a
// job or node gone. A job is Gone only when two full tables in a row, from a controller that has answered without pause
// between, lack it AND it had ended before or slurmctld answered 2017 to a direct question; a table that suddenly lacks
// more than half of the live jobs is not believed until confirmed so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/async.hpp"
#include "slurm/client.hpp"
#include "slurm/types.hpp"

namespace bascule::slurm {

struct MirrorOptions {
  Duration fast_interval = std::chrono::milliseconds(20);
  // With the tables, both processes of the bridge together stay below 60 calls a minute.
  Duration rest_interval = std::chrono::milliseconds(2800);
  Duration full_interval = std::chrono::seconds(10);  // at least; longer when the table is costly
  Duration node_interval = std::chrono::seconds(20);
  // How long slurmctld must answer without a pause before what its tables lack counts as absent.
  Duration settle = std::chrono::seconds(10);
  bool want_nodes = true;
  // Somebody waits for starts: look closely around the moments when Slurm expects an external job to start.
  bool expect_starts = false;
};

enum class Knowledge : std::uint8_t {
  kUnknown,  // never seen and no full table yet, or the controller does not answer
  kPresent,
  kGone,  // surely not in slurmctld any more (or never was: absent from a trusted full table)
};

class ClusterMirror final {
 public:
  struct JobChange {
    std::shared_ptr<const Job> before;  // nullptr: new
    std::shared_ptr<const Job> after;   // nullptr: surely gone
  };
  struct NodeChange {
    std::shared_ptr<const Node> before;
    std::shared_ptr<const Node> after;
  };

  ClusterMirror(Loop& loop, Client& client, MirrorOptions options);
  ~ClusterMirror();
  void on_job(std::function<void(const JobChange&)> handler);  // before start()
  void on_node(std::function<void(const NodeChange&)> handler);
  void on_health(std::function<void(bool reachable)> handler);
  // Before start(). Is a question of its own worth it when the cheap look says that this job (nullptr: one not known
  // yet) is `now` so? Otherwise a known one takes that state and the rest with the next table, as does a new one.
  // Without it every job is.
  using WantsDetail = std::function<bool(JobId id, const Job* known, const JobStates& now)>;
  void set_wants_detail(WantsDetail wants);
  void start();
  Task<> stop();

  // A job was just submitted, cancelled or updated: look at the jobs soon and often.
  void poke();
  // A node was written, or what is known of the nodes is behind: their table is wanted within a second or so.
  void poke_nodes();
  // A job may start now: something that held nodes has ended. Looks soon, and less often than after poke().
  void expect_start();
  // Somebody needs to know whether the states of these jobs are as they were: confirmed_at() tells soon, at the cost of
  // one question for all that was asked so meanwhile.
  void look_at(const std::vector<JobId>& ids);
  // Somebody needs to know this job: asks about it soon.
  void want(JobId id);
  // A full job table is in.
  bool synced() const noexcept;
  bool reachable() const noexcept;      // the last call was answered
  std::string why_unreachable() const;  // a sentence for people, or empty
  // When the last trusted full job table was asked for (not answered): a job submitted before that instant whose submit
  // had ended is in it.
  TimePoint full_as_of() const noexcept;
  // That table was asked for after slurmctld last stopped answering. Until then an id may be another job's, though its
  // state is as before.
  bool listed_since_away() const noexcept;
  // Until then, where the last table lacked it, while slurmctld may not have saved it, and where nothing has confirmed
  // its state for as long, its id may be another job's.
  bool may_be_lost(JobId id) const noexcept;
  // The same as full_as_of() of the node table.
  TimePoint nodes_as_of() const noexcept;
  // When the state of this job was last confirmed by any answer.
  TimePoint confirmed_at(JobId id) const noexcept;
  // The job runs as job() says, and had started so by then: the answer was in that said first that it runs, which may
  // have been before its record was. nullopt: not known.
  std::optional<TimePoint> started_by(JobId id) const noexcept;
  Knowledge knowledge(JobId id) const noexcept;
  // The highest id that slurmctld lists now, by its last tables that count, not one that it listed once: that may be of
  // a state it has lost. 0: not known.
  JobId highest() const noexcept;
  std::shared_ptr<const Job> job(JobId id) const noexcept;
  std::shared_ptr<const Node> node(const std::string& name) const noexcept;
  // A job that has not ended and requires this node by name, whether it waits or runs. slurmctld ends it with NODE_FAIL
  // when it starts or is reconfigured after the node was deleted (docs/facts.md). For synced(); costs little.
  std::optional<JobId> job_that_requires(const std::string& node) const;
  // Is the last full table so young that a node may be deleted by what it says? If not, another is asked for.
  bool listed_lately();
  bool nodes_synced() const noexcept;
  const std::unordered_map<JobId, std::shared_ptr<const Job>>& jobs() const noexcept;
  const std::unordered_map<std::string, std::shared_ptr<const Node>>& nodes() const noexcept;
  // Puts in what a direct answer said (after submit, update, get), so that nobody waits for the next look.
  void learn(Job job);
  // Asks slurmctld now about one job and learns the answer. nullopt: it says there is no such job.
  Task<std::optional<Job>> ask(JobId id, std::stop_token stop);
  // The full table is asked for as soon as slurmctld is to be asked for it again.
  void want_full();
  // The next full table asked for after this call; false when stopped or at the deadline.
  Task<bool> next_full(std::stop_token stop, TimePoint deadline);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::slurm

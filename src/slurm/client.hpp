// slurmrestd, data parser v0.0.41 to v0.0.45, the best common one found at start. Tolerant in what it reads, exact in
// what it sends. Source: slurmrestd(8), Slurm REST API. Facts that shape it: success of a submit is a non-zero job_id,
// whatever the status; an error status does not prove that nothing happened; DELETE of another user's job by one who
// may not hangs slurmctld, so the token is root's or SlurmUser's; numbers are sent with "set", since an object without
// it means unset.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/async.hpp"
#include "base/loop.hpp"
#include "net/http.hpp"
#include "slurm/error.hpp"
#include "slurm/token.hpp"
#include "slurm/types.hpp"

namespace bascule::slurm {

struct ClientOptions {
  TokenSource token;
  std::string user_name;                        // X-SLURM-USER-NAME; empty: the token's user
  std::string path_prefix;                      // of the base URL, without trailing slash
  Duration timeout = std::chrono::seconds(15);  // of one call
  Duration list_timeout = std::chrono::seconds(60);
  std::size_t max_answer = std::size_t{1} << 30;  // bytes; of a table each row
  std::function<void(std::string_view operation, int http, std::int32_t number, Duration took)> report = nullptr;
};

struct Versions {
  std::string parser;           // "v0.0.44"
  std::string slurm;            // "26.05.5"
  std::string cluster;          // ClusterName
  bool external_jobs = false;   // EXTERNAL_JOB flag: v0.0.43 and up
  bool external_nodes = false;  // POST new/node and GET resources: v0.0.44 and up
};

struct JobList {
  bool unchanged = false;  // nothing is newer than the `since` given
  std::vector<Job> jobs;
  std::int64_t last_update = 0;  // give it as `since` next time; 0: none
  std::vector<JobId> same = {};  // jobs that are as whoever asked knows them
};
struct NodeList {
  bool unchanged = false;
  std::vector<Node> nodes;
  std::int64_t last_update = 0;
};

// Methods throw slurm::Error's kinds, or net::Error of kind kStopped.
class Client final {
 public:
  Client(Loop& loop, net::Transport& transport, ClientOptions options);
  ~Client();

  // Finds the version on first use, after NotServed answers and after a call without one; v0.0.44 is preferred, then
  // 45, 43, 42, 41.
  Task<Versions> versions(std::stop_token stop = {});
  // True when slurmctld answers.
  Task<bool> ping(std::stop_token stop = {});
  // Host names of the slurmctlds that answer, the primary first.
  Task<std::vector<std::string>> answering(std::stop_token stop = {});

  // Submits an EXTERNAL_JOB, or before v0.0.43 a batch job that only holds the nodes. Throws Refused when slurmctld
  // said no and no job exists; Unreachable with surely_not_done false when a job may exist all the same: look for it
  // before submitting again.
  Task<JobId> submit_external(JobDescription job, std::stop_token stop = {});
  Task<> update_job(JobId id, JobDescription change, std::stop_token stop = {});
  // Returns also when the job has already ended; NotFound when slurmctld does not know it.
  Task<> cancel_job(JobId id, std::stop_token stop = {});
  Task<std::optional<Job>> get_job(JobId id, std::stop_token stop = {});  // nullopt: slurmctld says 2017
  // Of what `known` gives, what is still so is not told again: a table of 50,000 jobs must not be there twice. It is
  // asked while the answer comes in.
  using KnownJob = std::function<std::shared_ptr<const Job>(JobId)>;
  Task<JobList> list_jobs(std::int64_t since = 0, std::stop_token stop = {}, KnownJob known = nullptr);
  // Of these jobs; none given: of all. Those that slurmctld does not know are not in it.
  Task<std::vector<JobBrief>> job_states(std::vector<JobId> ids = {}, std::stop_token stop = {});
  Task<std::vector<NodeAllocation>> allocation(JobId id, std::stop_token stop = {});

  Task<NodeList> list_nodes(std::int64_t since = 0, std::stop_token stop = {});
  Task<std::optional<Node>> get_node(std::string name, std::stop_token stop = {});
  // `conf`: one slurm.conf node line without newline, always with NodeAddr. AlreadyExists is Refused with number 2168.
  Task<> add_node(std::string conf, std::stop_token stop = {});
  Task<> update_node(std::string name, NodeUpdate change, std::stop_token stop = {});
  Task<> delete_node(std::string name, std::stop_token stop = {});  // Busy: still in use

  // nullopt: slurmctld says there is none. Writing: v0.0.43 and up.
  Task<std::optional<Reservation>> get_reservation(std::string name, std::stop_token stop = {});
  Task<> write_reservation(ReservationUpdate change, std::stop_token stop = {});
  Task<> delete_reservation(std::string name, std::stop_token stop = {});

  Task<std::vector<Partition>> list_partitions(std::stop_token stop = {});
  // Nothing about partitions has changed since then (seconds, by slurmctld's clock). slurmctld counts its own start as
  // a change of them, so true says too that it has been running ever since.
  Task<bool> partitions_unchanged(std::int64_t since, std::stop_token stop = {});
  // SlurmctldParameters as slurmctld runs with them; nullopt: slurmrestd does not tell, before v0.0.45.
  Task<std::optional<std::vector<std::string>>> slurmctld_parameters(std::stop_token stop = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::slurm

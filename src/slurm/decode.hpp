// Reads the answers of slurmrestd, data parsers v0.0.41 to v0.0.45, into our records. Tolerant: a number may be plain,
// quoted or a {set, infinite, number} object, an id a string or a number, a state one word or a list of them; unknown
// fields are skipped, null is absent. Strict where silence would lie: a list that is missing, null, truncated or holds
// a record without its id is not an empty list.
// All throw json::ParseError or json::ShapeError. Source: slurmrestd OpenAPI document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/client.hpp"

namespace bascule::slurm {

// An entry of errors[], warnings[] or status[].error.
struct Complaint {
  std::int32_t number = 0;
  std::string name;         // "Invalid partition name specified"
  std::string description;  // "Batch job submission failed"
  friend bool operator==(const Complaint&, const Complaint&) = default;
};

// What every answer carries beside its data.
struct Envelope {
  std::uint32_t job_id = 0;  // of a submit; in v0.0.41 inside `result`
  std::vector<Complaint> errors;
  std::vector<Complaint> warnings;
  std::vector<Complaint> status;  // of DELETE job: what went wrong, with HTTP 200
  std::string release;            // "26.05.5"
  std::string cluster;
};

Envelope decode_envelope(std::string_view body);

// The list is absent when the answer has no such key.
template <class List>
struct Listed {
  Envelope envelope;
  std::optional<List> list;
};

// One or many jobs. `unchanged` is set by the shape slurmrestd gives when nothing is newer than update_time: no jobs
// and last_update 0.
Listed<JobList> decode_jobs(std::string_view body);
// One of the list, as json::ListSplitter gives it.
Job decode_job(std::string_view padded);
Listed<std::vector<JobBrief>> decode_job_states(std::string_view body);
Listed<NodeList> decode_nodes(std::string_view body);
Node decode_node(std::string_view padded);  // as decode_job()
Listed<std::vector<Partition>> decode_partitions(std::string_view body);
Listed<std::vector<Reservation>> decode_reservations(std::string_view body);
Listed<std::vector<NodeAllocation>> decode_allocation(std::string_view body);

struct Ping {
  bool up = false;                          // some controller answers
  std::string status;                       // of the first that does not, in its words
  std::vector<std::string> answering = {};  // host names of those that do, in the server's order
};
Listed<Ping> decode_ping(std::string_view body);
Listed<std::vector<std::string>> decode_slurmctld_parameters(std::string_view body);  // of conf/

}  // namespace bascule::slurm

// The JSON of FakeSlurm: what slurmrestd 26.05 writes and reads.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "testing/fake_slurm_model.hpp"

namespace bascule::testing {

// `"meta":{...},"errors":[...],"warnings":[...]` without braces.
std::string slurm_envelope(const SlurmModelOptions& about, const std::vector<SlurmNo>& errors = {},
                           const std::vector<std::string>& warnings = {});
void write_job(std::string& to, const SlurmModel::JobRecord& record, bool with_external_flag);
// `listed` false: the view of GET node/{name}, whose allocation is never fresh.
void write_node(std::string& to, const SlurmModel::NodeRecord& record, bool listed);
void write_partition(std::string& to, const SlurmModel& model, const slurm::Partition& partition);
std::string write_states(const slurm::JobStates& states);   // ["RUNNING"]
std::string write_states(const slurm::NodeStates& states);  // ["IDLE","EXTERNAL"]
std::string write_number(std::optional<std::int64_t> value);
std::string json_string(std::string_view text);

struct SubmitBody {
  slurm::JobDescription job;
  bool external = false;
  bool script = false;
  bool unknown_flag = false;
  std::vector<std::string> warnings;
};
// A bare description; unknown fields become warnings. The error is for 9202 and 9209.
std::expected<SubmitBody, SlurmNo> read_description(std::string_view text);
// {"job": description}.
std::expected<SubmitBody, SlurmNo> read_submit(std::string_view text);
std::expected<slurm::NodeUpdate, SlurmNo> read_node_update(std::string_view text);
std::expected<std::string, SlurmNo> read_node_conf(std::string_view text);

}  // namespace bascule::testing

#include "slurm/encode.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "json/value.hpp"

namespace bascule::slurm {

namespace {

json::Value number(std::uint64_t value) {
  return json::Object{{"set", true}, {"number", value}};
}

json::Array list(const std::vector<std::string>& words) {
  json::Array array;
  for (const std::string& word : words) array.emplace_back(word);
  return array;
}

template <class T>
void put(json::Object& to, std::string_view key, const std::optional<T>& value) {
  if (!value) return;
  if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    to[key] = list(*value);
  } else {
    to[key] = json::Value(*value);
  }
}

// slurmrestd takes an empty array for no word at all, and the job keeps the list it had: an empty string empties it.
void put_nodes(json::Object& to, std::string_view key, const std::optional<std::vector<std::string>>& nodes) {
  if (nodes) to[key] = nodes->empty() ? json::Value("") : json::Value(list(*nodes));
}

json::Object describe(const JobDescription& job) {
  json::Object to;
  put(to, "name", job.name);
  put(to, "account", job.account);
  put(to, "partition", job.partition);
  put(to, "qos", job.qos);
  put(to, "reservation", job.reservation);
  put(to, "constraints", job.constraints);
  put(to, "licenses", job.licenses);
  put(to, "wckey", job.wckey);
  put(to, "mcs_label", job.mcs_label);
  put(to, "user_id", job.user_id);
  put(to, "group_id", job.group_id);
  put(to, "admin_comment", job.admin_comment);
  put(to, "comment", job.comment);
  put(to, "tres_per_node", job.tres_per_node);
  put(to, "tres_per_task", job.tres_per_task);
  if (job.nodes) {
    const auto [minimum, maximum] = *job.nodes;
    to["nodes"] = minimum == maximum ? std::to_string(minimum) : fmt::format("{}-{}", minimum, maximum);
  }
  put(to, "tasks", job.tasks);
  put(to, "tasks_per_node", job.tasks_per_node);
  put(to, "cpus_per_task", job.cpus_per_task);
  if (job.memory_per_node) to["memory_per_node"] = number(*job.memory_per_node);
  if (job.memory_per_cpu) to["memory_per_cpu"] = number(std::max<std::uint64_t>(1, *job.memory_per_cpu));
  if (job.time_limit) to["time_limit"] = number(*job.time_limit);
  if (job.priority) to["priority"] = number(*job.priority);
  put_nodes(to, "required_nodes", job.required_nodes);
  put_nodes(to, "excluded_nodes", job.excluded_nodes);
  put(to, "hold", job.hold);
  if (job.exclusive) to["shared"] = *job.exclusive ? json::Array{"none"} : json::Array{};
  return to;
}

}  // namespace

std::string encode_submit(const JobDescription& job) {
  json::Object description = describe(job);
  description["flags"] = json::Array{"EXTERNAL_JOB"};
  description["current_working_directory"] = "/tmp";  // nothing works there; squeue and job_submit plug-ins see it
  return json::dump(json::Object{{"job", std::move(description)}});
}

std::string encode_placeholder(const JobDescription& job) {
  json::Object description = describe(job);
  description["script"] =
      "#!/bin/sh\n# Holds the nodes for pods of Kubernetes; the work is in the pods.\nexec sleep infinity\n";
  description["environment"] = json::Array{"PATH=/usr/bin:/bin"};
  description["current_working_directory"] = "/";
  description["standard_output"] = "/dev/null";
  description["standard_error"] = "/dev/null";
  // Its pods have run: another start of the same job would be on other nodes.
  description["requeue"] = false;
  return json::dump(json::Object{{"job", std::move(description)}});
}

std::string encode_update(const JobDescription& change) {
  return json::dump(describe(change));
}

std::string encode_node_update(const NodeUpdate& change) {
  json::Object to;
  if (change.state) to["state"] = json::Array{json::Value(*change.state)};
  put(to, "reason", change.reason);
  put(to, "comment", change.comment);
  put(to, "extra", change.extra);
  put(to, "topology_str", change.topology);
  put(to, "features", change.features);
  put(to, "features_act", change.active_features ? change.active_features : change.features);
  return json::dump(to);
}

std::string encode_reservation(const ReservationUpdate& change) {
  const auto number = [](auto value) { return json::Object{{"set", true}, {"infinite", false}, {"number", value}}; };
  json::Object to{{"name", change.name}};
  if (change.start_time) to["start_time"] = number(*change.start_time);
  if (change.duration) to["duration"] = number(*change.duration);
  put(to, "flags", change.flags);
  put(to, "users", change.users);
  put(to, "node_list", change.nodes);
  return json::dump(to);
}

std::string encode_new_node(const std::string& conf) {
  return json::dump(json::Object{{"node_conf", conf}});
}

}  // namespace bascule::slurm

#include "testing/fake_slurm_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "json/value.hpp"

namespace bascule::testing {

namespace {

std::string number_object(bool set, bool infinite, std::int64_t value) {
  return fmt::format(R"({{"set":{},"infinite":{},"number":{}}})", set, infinite, value);
}

std::string words(std::string_view printed) {
  std::string out = "[";
  while (true) {
    const std::size_t plus = printed.find('+');
    out += '"';
    out += printed.substr(0, plus);
    out += '"';
    if (plus == std::string_view::npos) return out + "]";
    out += ',';
    printed.remove_prefix(plus + 1);
  }
}

std::string list(const std::vector<std::string>& texts) {
  std::string out = "[";
  for (const std::string& text : texts) out += (out.size() > 1 ? "," : "") + json_string(text);
  return out + "]";
}

std::string limit(const std::optional<std::uint32_t>& value) {
  if (value == slurm::kInfinite) return number_object(false, true, 0);
  return value ? number_object(true, false, *value) : number_object(false, false, 0);
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string json = json::dump(json::Value(text));
  // As slurmrestd's writer does.
  for (std::size_t at = json.find('/'); at != std::string::npos; at = json.find('/', at + 2)) json.insert(at, 1, '\\');
  return json;
}

std::string write_states(const slurm::JobStates& states) {
  return words(slurm::print(states));
}
std::string write_states(const slurm::NodeStates& states) {
  return words(slurm::print(states));
}
std::string write_number(std::optional<std::int64_t> value) {
  return number_object(value.has_value(), false, value.value_or(0));
}

std::string slurm_envelope(const SlurmModelOptions& about, const std::vector<SlurmNo>& errors,
                           const std::vector<std::string>& warnings) {
  std::string out =
      fmt::format(R"-("meta":{{"plugin":{{"type":"openapi\/slurmctld","name":"Slurm OpenAPI slurmctld",)-"
                  R"-("data_parser":"data_parser\/v0.0.44","accounting_storage":""}},)-"
                  R"-("client":{{"source":"127.0.0.1:6820(fd:11)","user":"root","group":"root"}},"command":[],)-"
                  R"-("slurm":{{"version":{{"major":"26","micro":"5","minor":"05"}},"release":{},"cluster":{}}}}},)-"
                  R"-("errors":[)-",
                  json_string(about.release), json_string(about.cluster));
  for (const SlurmNo& error : errors) {
    if (&error != errors.data()) out += ',';
    out += fmt::format(R"({{"description":"","error_number":{},"error":{},"source":"slurm"}})", error.number,
                       json_string(error.name));
  }
  out += R"(],"warnings":[)";
  for (std::size_t i = 0; i < warnings.size(); ++i) {
    if (i > 0) out += ',';
    out += fmt::format(R"({{"description":{},"source":"slurmctld"}})", json_string(warnings[i]));
  }
  return out + "]";
}

namespace {

std::string allocation(const SlurmModel::JobRecord& job) {
  if (job.shares.empty()) return "null";
  std::string out = R"({"nodes":{"allocation":[)";
  for (const SlurmModel::Share& share : job.shares) {
    if (&share != job.shares.data()) out += ',';
    out += fmt::format(R"({{"name":{},"cpus":{{"count":{},"used":0}},"memory":{{"used":0,"allocated":{}}}}})",
                       json_string(share.node), share.cpus, share.memory);
  }
  return out + "]}}";
}

}  // namespace

void write_job(std::string& to, const SlurmModel::JobRecord& record, bool with_external_flag) {
  const slurm::Job& job = record.view;
  const bool ended = job.states.ended();
  fmt::format_to(
      std::back_inserter(to),
      R"({{"account":{},"accrue_time":{},"admin_comment":{},"array_job_id":{},"batch_flag":{},"cluster":"farm","command":"","comment":{},"constraints_unknown":null,"cpus":{},"end_time":{},"excluded_nodes":{},"exit_code":{{"status":["SUCCESS"],"return_code":{},"signal":{{"id":{},"name":""}}}},"features":{},"flags":[{}],"gres_detail":{},"group_id":0,"hold":{},"job_id":{},"job_resources":{},"job_state":{},"name":{},"nodes":{},"partition":{},"priority":{},"qos":{},"required_nodes":{},"restart_cnt":{},"resv_name":{},"start_time":{},"state_description":{},"state_reason":{},"submit_time":{},"time_limit":{},"tres_per_node":{},"user_id":0,"user_name":{}}})",
      json_string(job.account), write_number(job.submit_time), json_string(job.admin_comment), write_number(0),
      job.external ? "false" : "true", json_string(job.comment), write_number(1), write_number(job.end_time),
      json_string(job.excluded_nodes), write_number(ended ? std::optional<std::int64_t>(0) : std::nullopt),
      write_number(std::nullopt), json_string(job.constraints),
      with_external_flag && job.external ? R"("EXTERNAL_JOB")" : "", list(job.gres_detail), job.hold, job.id.value,
      allocation(record), write_states(job.states), json_string(job.name), json_string(job.nodes),
      json_string(job.partition), limit(job.priority), json_string(job.qos), json_string(job.required_nodes),
      job.restart_count, json_string(job.reservation), write_number(job.start_time), json_string(job.state_description),
      json_string(job.state_reason), write_number(job.submit_time), limit(job.time_limit),
      json_string(job.tres_per_node), json_string(job.user));
}

void write_node(std::string& to, const SlurmModel::NodeRecord& record, bool listed) {
  const slurm::Node& node = record.view;
  slurm::NodeStates states = node.states;
  if (!listed && states.base == slurm::NodeState::kMixed) states.base = slurm::NodeState::kAllocated;
  fmt::format_to(
      std::back_inserter(to),
      R"({{"architecture":"","active_features":{},"address":{},"alloc_cpus":{},"alloc_memory":{},"comment":{},"cores":{},"cpus":{},"extra":{},"features":{},"gres":{},"gres_used":{},"name":{},"partitions":{},"real_memory":{},"reason":{},"reason_changed_at":{},"reason_set_by_user":{},"sockets":{},"state":{},"threads":{},"topology":{},"weight":1}})",
      list(node.active_features), json_string(node.address), listed ? node.alloc_cpus : 0,
      listed ? node.alloc_memory : 0, json_string(node.comment), node.cores, node.cpus, json_string(node.extra),
      list(node.features), json_string(node.gres), json_string(node.gres_used), json_string(node.name),
      list(node.partitions), node.memory, json_string(node.reason), write_number(node.reason_time),
      json_string(node.reason_set_by), node.sockets, write_states(states), node.threads, json_string(node.topology));
}

void write_partition(std::string& to, const SlurmModel& model, const slurm::Partition& partition) {
  std::vector<std::string> names;
  for (const auto& [name, node] : model.nodes()) {
    if (model.in_partition(name, partition.name)) names.push_back(name);
  }
  // Slurm knows its own order of names; the map's is near enough for tests.
  std::string configured;
  for (const std::string& name : names) configured += (configured.empty() ? "" : ",") + name;
  to += fmt::format(
      R"({{"name":{},"nodes":{{"allowed_allocation":"","configured":{},"total":{}}},"defaults":{{"time":{}}},"maximums":{{"time":{}}},"partition":{{"state":{}}}}})",
      json_string(partition.name), json_string(configured), names.size(), limit(partition.default_time),
      limit(partition.max_time), list(partition.states));
}

// --- reading ---------------------------------------------------------------------------------------------------------

namespace {

std::unexpected<SlurmNo> bad(std::int32_t number, std::string name) {
  return std::unexpected(SlurmNo{number, std::move(name)});
}

// As slurmrestd takes numbers: plain, quoted, or an object that says "set"; without it the value is unset.
struct NumberText {
  bool wrong = false;
  std::optional<std::uint64_t> value;
};

NumberText read_number(const json::Value& value) {
  NumberText out;
  if (const auto* object = value.if_object()) {
    const json::Value* set = object->if_contains("set");
    const json::Value* number = object->if_contains("number");
    if (set && set->is_bool() && set->as_bool() && number) return read_number(*number);
    return out;
  }
  if (value.is_int64() && value.as_int64() >= 0) out.value = static_cast<std::uint64_t>(value.as_int64());
  if (value.is_uint64()) out.value = value.as_uint64();
  if (value.is_string()) {
    const std::string_view text = json::view(value.as_string());
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) {
      out.value = number;
    } else {
      out.wrong = true;
    }
  }
  out.wrong |= value.is_bool();
  return out;
}

std::vector<std::string> read_words(const json::Value& value) {
  std::vector<std::string> out;
  if (value.is_string()) out.emplace_back(json::view(value.as_string()));
  if (const auto* array = value.if_array()) {
    for (const json::Value& item : *array) {
      if (item.is_string()) out.emplace_back(json::view(item.as_string()));
    }
  }
  return out;
}

// An empty array says nothing of the list, an empty string that it is empty.
std::optional<std::vector<std::string>> read_nodes(const json::Value& value) {
  std::vector<std::string> words = read_words(value);
  if (words.empty()) return std::nullopt;
  std::erase(words, std::string());
  return words;
}

// "3", "2-4", or a plain number.
std::optional<slurm::NodeCount> read_node_count(const json::Value& value) {
  if (value.is_int64()) return static_cast<std::uint32_t>(value.as_int64());
  if (!value.is_string()) return std::nullopt;
  std::uint32_t least = 0;
  std::uint32_t most = 0;
  const std::string text(json::view(value.as_string()));
  const int found = std::sscanf(text.c_str(), "%u-%u", &least, &most);
  if (found < 1) return std::nullopt;
  return slurm::NodeCount{least, found == 2 ? most : least};
}

struct Reader {
  SubmitBody body;
  std::optional<SlurmNo> error;

  void text(const json::Value& value, std::optional<std::string>& to) {
    if (value.is_string()) to = std::string(json::view(value.as_string()));
  }
  template <class T>
  void number(const json::Value& value, std::optional<T>& to) {
    const NumberText read = read_number(value);
    if (read.wrong) error = SlurmNo{9202, "Unable to convert into a number"};
    if (read.value) to = static_cast<T>(*read.value);
  }

  void field(std::string_view key, const json::Value& value) {
    slurm::JobDescription& job = body.job;
    if (key == "name") return text(value, job.name);
    if (key == "account") return text(value, job.account);
    if (key == "partition") return text(value, job.partition);
    if (key == "qos") return text(value, job.qos);
    if (key == "reservation") return text(value, job.reservation);
    if (key == "constraints") return text(value, job.constraints);
    if (key == "licenses") return text(value, job.licenses);
    if (key == "wckey") return text(value, job.wckey);
    if (key == "mcs_label") return text(value, job.mcs_label);
    if (key == "user_id") return text(value, job.user_id);
    if (key == "group_id") return text(value, job.group_id);
    if (key == "admin_comment") return text(value, job.admin_comment);
    if (key == "comment") return text(value, job.comment);
    if (key == "tres_per_node") return text(value, job.tres_per_node);
    if (key == "tres_per_task") return text(value, job.tres_per_task);
    if (key == "tasks") return number(value, job.tasks);
    if (key == "nodes") return void(job.nodes = read_node_count(value));
    if (key == "tasks_per_node") return number(value, job.tasks_per_node);
    if (key == "cpus_per_task") return number(value, job.cpus_per_task);
    if (key == "memory_per_node") return number(value, job.memory_per_node);
    if (key == "memory_per_cpu") return number(value, job.memory_per_cpu);
    if (key == "time_limit") return number(value, job.time_limit);
    if (key == "priority") return number(value, job.priority);
    if (key == "required_nodes") return void(job.required_nodes = read_nodes(value));
    if (key == "excluded_nodes") return void(job.excluded_nodes = read_nodes(value));
    if (key == "hold") {
      if (value.is_bool()) job.hold = value.as_bool();
      return;
    }
    if (key == "shared") {
      const auto words = read_words(value);
      job.exclusive = std::ranges::find(words, "none") != words.end();
      body.unknown_flag |= std::ranges::find(words, "exclusive") != words.end();
      return;
    }
    if (key == "script") return void(body.script = value.is_string());
    if (key == "flags") {
      for (const std::string& flag : read_words(value)) {
        if (flag == "EXTERNAL_JOB") {
          body.external = true;
        } else {
          body.unknown_flag = true;
        }
      }
      return;
    }
    if (key == "environment" || key == "current_working_directory") return;
    body.warnings.push_back(fmt::format("Ignoring unknown field \"{}\" in DATA_PARSER_JOB_DESC_MSG", key));
  }
};

std::expected<json::Value, SlurmNo> parse_object(std::string_view text) {
  try {
    json::Value value = json::parse(text);
    if (!value.is_object()) return bad(9209, "Unexpected type: expected a dictionary");
    return value;
  } catch (const json::ParseError&) {
    return bad(9000, "Invalid query");
  }
}

std::expected<SubmitBody, SlurmNo> read_object(const json::Object& object) {
  Reader reader;
  for (const auto& [key, value] : object) reader.field(std::string_view(key.data(), key.size()), value);
  if (reader.error) return std::unexpected(*reader.error);
  return std::move(reader.body);
}

}  // namespace

std::expected<SubmitBody, SlurmNo> read_description(std::string_view text) {
  const auto value = parse_object(text);
  if (!value) return std::unexpected(value.error());
  return read_object(value->as_object());
}

std::expected<SubmitBody, SlurmNo> read_submit(std::string_view text) {
  const auto value = parse_object(text);
  if (!value) return std::unexpected(value.error());
  const json::Object* job = json::object_at(*value, {"job"});
  if (!job) return bad(9200, "Unable to find the field \"job\"");
  return read_object(*job);
}

std::expected<slurm::NodeUpdate, SlurmNo> read_node_update(std::string_view text) {
  const auto value = parse_object(text);
  if (!value) return std::unexpected(value.error());
  slurm::NodeUpdate change;
  const auto take = [&value](std::string_view key, std::optional<std::string>& to) {
    const json::Value* field = json::find(*value, {key});
    if (field && field->is_string()) to = std::string(json::view(field->as_string()));
  };
  take("reason", change.reason);
  take("comment", change.comment);
  take("extra", change.extra);
  take("topology_str", change.topology);
  if (const json::Value* states = json::find(*value, {"state"})) {
    const auto verbs = read_words(*states);
    if (verbs.size() > 1) return bad(2180, "Invalid node state transition requested");
    if (!verbs.empty()) change.state = verbs.front();
  }
  if (const json::Value* features = json::find(*value, {"features"})) change.features = read_words(*features);
  return change;
}

std::expected<std::string, SlurmNo> read_node_conf(std::string_view text) {
  const auto value = parse_object(text);
  if (!value) return std::unexpected(value.error());
  const json::Value* conf = json::find(*value, {"node_conf"});
  if (!conf || !conf->is_string()) return bad(9200, "Unable to find the field \"node_conf\"");
  return std::string(json::view(conf->as_string()));
}

}  // namespace bascule::testing

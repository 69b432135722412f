#include "slurm/decode.hpp"

#include <charconv>
#include <limits>

#include "json/hot.hpp"

namespace bascule::slurm {

namespace {

using json::hot::Value;

std::optional<std::int64_t> to_integer(std::string_view text) noexcept {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // "1.5" gives 1: slurmrestd truncates too.
  if (error != std::errc() || (end != text.data() + text.size() && *end != '.' && *end != 'e')) return std::nullopt;
  return number;
}

// Text of a string or number; what else stands there is as good as absent.
template <class Text>
void read(Value value, Text& to)
  requires std::is_same_v<Text, std::string> || std::is_same_v<Text, SharedText>
{
  if (value.is_object() || value.is_array()) return;
  const bool string = value.is_string();
  if (!string && !value.is_number()) return;
  if (const auto text = value.scalar()) to = *text;
}

// Number objects, plain and quoted numbers. `infinite` comes before `set`.
struct Number {
  std::optional<std::int64_t> value;
  bool infinite = false;
};

Number read_number(Value value) {
  Number number;
  if (!value.is_object()) {
    if (!value.is_array() && (value.is_string() || value.is_number())) {
      if (const auto text = value.scalar()) number.value = to_integer(*text);
    }
    return number;
  }
  bool set = true;
  value.fields([&](std::string_view key, Value field) {
    if (key == "set") {
      set = field.boolean().value_or(true);
    } else if (key == "infinite") {
      number.infinite = field.boolean().value_or(false);
    } else if (key == "number") {
      number.value = read_number(field).value;
    }
  });
  if (!set || number.infinite) number.value.reset();
  return number;
}

template <class T>
void read(Value value, T& to)
  requires std::is_integral_v<T>
{
  const auto number = read_number(value).value;
  if (number && *number >= 0 && static_cast<std::uint64_t>(*number) <= std::numeric_limits<T>::max()) {
    to = static_cast<T>(*number);
  }
}

// Seconds since 1970. What is beyond the year 2255 is no time, and more than a clock's nanoseconds can count.
void read_time(Value value, std::int64_t& to) {
  constexpr std::int64_t kLatest = 9'000'000'000;
  std::int64_t seconds = 0;
  read(value, seconds);
  if (seconds <= kLatest) to = seconds;
}

// Absent, unlimited and a number are three things.
void read_limit(Value value, std::optional<std::uint32_t>& to) {
  const Number number = read_number(value);
  if (number.infinite) {
    to = kInfinite;
  } else if (number.value && *number.value >= 0 && *number.value < kInfinite) {
    to = static_cast<std::uint32_t>(*number.value);
  }
}

void read_bool(Value value, bool& to) {
  if (value.is_bool()) to = value.boolean().value_or(false);
}

// Words of a list; a bare string is one word, or several between commas.
template <class F>
void read_words(Value value, F&& use) {
  if (value.is_array()) {
    value.items([&](Value item) {
      if (!item.is_string()) return;
      if (const auto word = item.string()) use(*word);
    });
  } else if (value.is_string()) {
    std::string_view rest = value.string().value_or("");
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      if (comma != 0) use(rest.substr(0, comma));
      if (comma == std::string_view::npos) return;
      rest.remove_prefix(comma + 1);
    }
  }
}

void read_words(Value value, std::vector<std::string>& to) {
  to.clear();
  read_words(value, [&to](std::string_view word) { to.emplace_back(word); });
}

JobStates read_job_states(Value value) {
  std::vector<std::string_view> words;
  read_words(value, [&words](std::string_view word) { words.push_back(word); });
  return parse_job_states(words);
}

NodeStates read_node_states(Value value) {
  std::vector<std::string_view> words;
  read_words(value, [&words](std::string_view word) { words.push_back(word); });
  return parse_node_states(words);
}

// --- the envelope ----------------------------------------------------------------------------------------------------

constexpr std::size_t kMaxComplaints = 64;

Complaint read_complaint(Value value) {
  Complaint complaint;
  if (!value.is_object()) return complaint;
  value.fields([&](std::string_view key, Value field) {
    if (key == "error_number" || key == "code") {
      if (const auto number = read_number(field).value) complaint.number = static_cast<std::int32_t>(*number);
    } else if (key == "error" || key == "string") {
      read(field, complaint.name);
    } else if (key == "description" || key == "message") {
      read(field, complaint.description);
    }
  });
  return complaint;
}

void read_complaints(Value value, std::vector<Complaint>& to) {
  if (!value.is_array()) return;
  value.items([&to](Value item) {
    if (to.size() < kMaxComplaints) to.push_back(read_complaint(item));
  });
}

void read_status(Value value, std::vector<Complaint>& to) {
  if (!value.is_array()) return;
  value.items([&to](Value item) {
    if (!item.is_object()) return;
    item.fields([&to](std::string_view key, Value field) {
      if (key == "error" && to.size() < kMaxComplaints) to.push_back(read_complaint(field));
    });
  });
}

void read_meta(Value value, Envelope& to) {
  if (!value.is_object()) return;
  value.fields([&to](std::string_view key, Value field) {
    if (key != "slurm" || !field.is_object()) return;
    field.fields([&to](std::string_view inner, Value text) {
      if (inner == "release") read(text, to.release);
      if (inner == "cluster") read(text, to.cluster);
    });
  });
}

void read_envelope(std::string_view key, Value value, Envelope& to) {
  if (key == "errors") {
    read_complaints(value, to.errors);
  } else if (key == "warnings") {
    read_complaints(value, to.warnings);
  } else if (key == "status") {
    read_status(value, to.status);
  } else if (key == "meta") {
    read_meta(value, to);
  } else if (key == "job_id") {
    read(value, to.job_id);
  } else if (key == "result" && value.is_object()) {
    value.fields([&to](std::string_view inner, Value field) {
      if (inner == "job_id" && to.job_id == 0) read(field, to.job_id);
    });
  }
}

// Reads one list under `name` and the envelope around it. `item` gets each record of the list, `other` every field that
// is neither.
template <class List, class Item, class Other>
Listed<List> decode_list(std::string_view body, std::string_view name, Item&& item, Other&& other) {
  Listed<List> answer;
  List list{};
  bool seen = false;
  json::hot::parse(body, [&](std::string_view key, Value value) {
    if (key == name) {
      if (!value.is_array()) value.refuse("a list");
      seen = true;
      value.items([&](Value record) {
        if (!record.is_object()) record.refuse("an object");
        item(record, list);
      });
    } else if (key == "last_update") {
      other(value, list);
    } else {
      read_envelope(key, value, answer.envelope);
    }
  });
  if (seen) answer.list = std::move(list);
  return answer;
}

constexpr auto kIgnore = [](Value, auto&) {};

// --- records ---------------------------------------------------------------------------------------------------------

void read_text(std::string_view key, Value value, Job& job) {
  if (key == "name") return read(value, job.name);
  if (key == "account") return read(value, job.account);
  if (key == "partition") return read(value, job.partition);
  if (key == "qos") return read(value, job.qos);
  if (key == "resv_name") return read(value, job.reservation);
  if (key == "nodes") return read(value, job.nodes);
  if (key == "required_nodes") return read(value, job.required_nodes);
  if (key == "excluded_nodes") return read(value, job.excluded_nodes);
  if (key == "features") return read(value, job.constraints);
  if (key == "state_reason") return read(value, job.state_reason);
  if (key == "state_description") return read(value, job.state_description);
  if (key == "admin_comment") return read(value, job.admin_comment);
  if (key == "comment") return read(value, job.comment);
  if (key == "tres_per_node") return read(value, job.tres_per_node);
}

// job_resources: {"nodes":{"allocation":[{"name":"n1","cpus":{"count":2}}]}}, null while pending; nodes in the order of
// the allocation's list.
void read_allocation(Value value, Job& job) {
  if (!value.is_object()) return;
  value.fields([&job](std::string_view key, Value nodes) {
    if (key != "nodes" || !nodes.is_object()) return;
    nodes.fields([&job](std::string_view part, Value list) {
      if (part != "allocation" || !list.is_array()) return;
      list.items([&job](Value node) {
        std::uint32_t& count = job.node_cpus.emplace_back();
        if (!node.is_object()) return;
        node.fields([&count](std::string_view field, Value cpus) {
          if (field != "cpus" || !cpus.is_object()) return;
          cpus.fields([&count](std::string_view name, Value number) {
            if (name == "count") read(number, count);
          });
        });
      });
    });
  });
}

struct JobReader {
  Job job;
  std::string user_number = {};

  void operator()(std::string_view key, Value value) {
    if (key == "job_id") return read(value, job.id.value);
    if (key == "job_state") return void(job.states = read_job_states(value));
    if (key == "user_name") return read(value, job.user);
    if (key == "user_id") return read(value, user_number);
    if (key == "gres_detail") return read_words(value, job.gres_detail);
    if (key == "flags") {
      return read_words(value, [this](std::string_view flag) { job.external |= flag == "EXTERNAL_JOB"; });
    }
    if (key == "job_resources") return read_allocation(value, job);
    if (key == "hold") return read_bool(value, job.hold);
    if (key == "priority") return read_limit(value, job.priority);
    if (key == "time_limit") return read_limit(value, job.time_limit);
    if (key == "submit_time") return read_time(value, job.submit_time);
    if (key == "start_time") return read_time(value, job.start_time);
    if (key == "end_time") return read_time(value, job.end_time);
    if (key == "restart_cnt") return read(value, job.restart_count);
    read_text(key, value, job);
  }
  Job finish() {
    if (!job.id) throw json::ShapeError("jobs", "a job with its job_id");
    if (job.user.empty()) job.user = user_number;
    return std::move(job);
  }
};

Job read_job(Value record) {
  JobReader reader;
  record.fields(reader);
  return reader.finish();
}

// jobs/state/ names a job in text: "7"; "7_3", one for every task of an array that waits as job 7; "7+1" in a
// heterogeneous job. What is in front is always the number by which the job itself is known.
JobId read_job_name(Value value) {
  JobId id;
  if (!value.is_string()) {
    read(value, id.value);
    return id;
  }
  const std::string_view text = value.string().value_or("");
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, id.value);
  if (error != std::errc() || (stop != end && *stop != '_' && *stop != '+')) id.value = 0;
  return id;
}

JobBrief read_brief(Value record) {
  JobBrief job;
  record.fields([&job](std::string_view key, Value value) {
    if (key == "job_id") job.id = read_job_name(value);
    if (key == "state" || key == "job_state") job.states = read_job_states(value);
  });
  if (!job.id) record.refuse("a job with its job_id");
  return job;
}

struct NodeReader {
  Node node;

  void operator()(std::string_view key, Value value) {
    if (key == "name") return read(value, node.name);
    if (key == "state") return void(node.states = read_node_states(value));
    if (key == "reason") return read(value, node.reason);
    if (key == "reason_set_by_user") return read(value, node.reason_set_by);
    if (key == "reason_changed_at") return read_time(value, node.reason_time);
    if (key == "address") return read(value, node.address);
    if (key == "cpus") return read(value, node.cpus);
    if (key == "sockets") return read(value, node.sockets);
    if (key == "cores") return read(value, node.cores);
    if (key == "threads") return read(value, node.threads);
    if (key == "real_memory") return read(value, node.memory);
    if (key == "gres") return read(value, node.gres);
    if (key == "gres_used") return read(value, node.gres_used);
    if (key == "features") return read_words(value, node.features);
    if (key == "active_features") return read_words(value, node.active_features);
    if (key == "partitions") return read_words(value, node.partitions);
    if (key == "topology") return read(value, node.topology);
    if (key == "alloc_cpus") return read(value, node.alloc_cpus);
    if (key == "alloc_memory") return read(value, node.alloc_memory);
    if (key == "comment") return read(value, node.comment);
    if (key == "extra") return read(value, node.extra);
    if (key == "reservation") return read(value, node.reservation);
  }
  Node finish() {
    if (node.name.empty()) throw json::ShapeError("nodes", "a node with its name");
    return std::move(node);
  }
};

Node read_node(Value record) {
  NodeReader reader;
  record.fields(reader);
  return reader.finish();
}

// A field one level down: {"time": ...} of "defaults".
template <class F>
void inside(Value value, std::string_view name, F&& use) {
  if (!value.is_object()) return;
  value.fields([&](std::string_view key, Value field) {
    if (key == name) use(field);
  });
}

Partition read_partition(Value record) {
  Partition partition;
  record.fields([&partition](std::string_view key, Value value) {
    const auto flags = [&partition](Value list) {
      read_words(list, [&partition](std::string_view flag) { partition.is_default |= flag == "DEFAULT"; });
    };
    if (key == "name") return read(value, partition.name);
    if (key == "flags") return flags(value);
    if (key == "nodes") return inside(value, "configured", [&](Value text) { read(text, partition.nodes); });
    if (key == "defaults") {
      return inside(value, "time", [&](Value time) { read_limit(time, partition.default_time); });
    }
    if (key == "maximums") return inside(value, "time", [&](Value time) { read_limit(time, partition.max_time); });
    if (key == "partition") {
      return inside(value, "state", [&](Value words) { read_words(words, partition.states); });
    }
  });
  if (partition.name.empty()) record.refuse("a partition with its name");
  return partition;
}

Reservation read_reservation(Value record) {
  Reservation reservation;
  record.fields([&reservation](std::string_view key, Value value) {
    if (key == "name") return read(value, reservation.name);
    if (key == "start_time") return read_time(value, reservation.start_time);
    if (key == "end_time") return read_time(value, reservation.end_time);
    if (key == "flags") return read_words(value, reservation.flags);
    if (key == "node_list") return read(value, reservation.nodes);
    if (key == "users") return read(value, reservation.users);
  });
  if (reservation.name.empty()) record.refuse("a reservation with its name");
  return reservation;
}

NodeAllocation read_allocation(Value record) {
  NodeAllocation held;
  record.fields([&held](std::string_view key, Value value) {
    if (key == "node") return read(value, held.node);
    if (key == "sockets_per_node") return read(value, held.sockets);
    if (key == "cores_per_socket") return read(value, held.cores_per_socket);
    if (key == "mem_alloc") return read(value, held.memory);
    if (key == "core_bitmap") return read(value, held.core_bitmap);
    if (key != "gres" || !value.is_array()) return;
    value.items([&held](Value item) {
      if (!item.is_object()) return;
      NodeAllocation::Gres& gres = held.gres.emplace_back();
      item.fields([&gres](std::string_view inner, Value field) {
        if (inner == "name") return read(field, gres.name);
        if (inner == "type") return read(field, gres.type);
        if (inner == "index") return read(field, gres.index);
        if (inner == "count") return read(field, gres.count);
      });
    });
  });
  if (held.node.empty()) record.refuse("an allocation with its node");
  return held;
}

void read_ping(Value record, Ping& ping) {
  bool up = false;
  std::string status, host;
  record.fields([&](std::string_view key, Value value) {
    std::string text;
    if (key == "hostname") {
      read(value, host);
    } else if (key == "responding") {
      bool responding = false;
      read_bool(value, responding);
      up |= responding;
    } else if (key == "pinged") {
      read(value, text);
      up |= text == "UP";
    } else if (key == "status") {
      read(value, status);
    }
  });
  ping.up |= up;
  if (up && !host.empty()) ping.answering.push_back(host);
  if (!up && ping.status.empty()) ping.status = std::move(status);
}

}  // namespace

Envelope decode_envelope(std::string_view body) {
  Envelope envelope;
  json::hot::parse(body, [&](std::string_view key, Value value) { read_envelope(key, value, envelope); });
  return envelope;
}

Listed<JobList> decode_jobs(std::string_view body) {
  bool updated = false;
  auto answer = decode_list<JobList>(
      body, "jobs", [](Value record, JobList& to) { to.jobs.push_back(read_job(record)); },
      [&updated](Value value, JobList& to) {
        updated = true;
        read(value, to.last_update);
      });
  if (answer.list) answer.list->unchanged = updated && answer.list->last_update == 0 && answer.list->jobs.empty();
  return answer;
}

Job decode_job(std::string_view padded) {
  JobReader reader;
  json::hot::parser().parse_padded(padded, reader);
  return reader.finish();
}

Node decode_node(std::string_view padded) {
  NodeReader reader;
  json::hot::parser().parse_padded(padded, reader);
  return reader.finish();
}

Listed<std::vector<JobBrief>> decode_job_states(std::string_view body) {
  return decode_list<std::vector<JobBrief>>(
      body, "jobs", [](Value record, auto& to) { to.push_back(read_brief(record)); }, kIgnore);
}

Listed<NodeList> decode_nodes(std::string_view body) {
  return decode_list<NodeList>(
      body, "nodes", [](Value record, NodeList& to) { to.nodes.push_back(read_node(record)); },
      [](Value value, NodeList& to) { read(value, to.last_update); });
}

Listed<std::vector<Partition>> decode_partitions(std::string_view body) {
  return decode_list<std::vector<Partition>>(
      body, "partitions", [](Value record, auto& to) { to.push_back(read_partition(record)); }, kIgnore);
}

Listed<std::vector<Reservation>> decode_reservations(std::string_view body) {
  return decode_list<std::vector<Reservation>>(
      body, "reservations", [](Value record, auto& to) { to.push_back(read_reservation(record)); }, kIgnore);
}

Listed<std::vector<NodeAllocation>> decode_allocation(std::string_view body) {
  return decode_list<std::vector<NodeAllocation>>(
      body, "nodes", [](Value record, auto& to) { to.push_back(read_allocation(record)); }, kIgnore);
}

Listed<Ping> decode_ping(std::string_view body) {
  return decode_list<Ping>(body, "pings", [](Value record, Ping& to) { read_ping(record, to); }, kIgnore);
}

Listed<std::vector<std::string>> decode_slurmctld_parameters(std::string_view body) {
  Listed<std::vector<std::string>> answer;
  json::hot::parse(body, [&](std::string_view key, Value value) {
    if (key != "slurm_conf" || !value.is_object()) return read_envelope(key, value, answer.envelope);
    value.fields([&answer](std::string_view inner, Value field) {
      if (inner == "SlurmctldParameters") read_words(field, answer.list.emplace());
    });
  });
  return answer;
}

}  // namespace bascule::slurm

#include "testing/fake_slurm_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/time.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::testing {

namespace {

using slurm::JobState;
using slurm::NodeFlag;
using slurm::NodeState;

std::unexpected<SlurmNo> no(std::int32_t number, std::string name) {
  return std::unexpected(SlurmNo{number, std::move(name)});
}

template <class F>
void split(std::string_view text, char at, F&& use) {
  while (true) {
    const std::size_t end = text.find(at);
    if (end != 0 && !text.empty()) use(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

template <class T>
bool number(std::string_view text, T& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && end == text.data() + text.size();
}

constexpr std::uint32_t bit(NodeFlag flag) {
  return static_cast<std::uint32_t>(flag);
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

// What one task asks for, or one node of a job that does not count tasks.
GpuRequest gpus_of(const slurm::JobDescription& job) {
  const auto& text = job.tres_per_task ? job.tres_per_task : job.tres_per_node;
  return parse_gpu_request(text.value_or("")).value_or(GpuRequest{});
}

// Names of a hostlist, or of several.
std::vector<std::string> names_of(const std::optional<std::vector<std::string>>& lists) {
  std::vector<std::string> names;
  for (const std::string& list : lists.value_or(std::vector<std::string>{})) {
    if (auto expanded = slurm::expand_hostlist(list)) names.insert(names.end(), expanded->begin(), expanded->end());
  }
  return names;
}

}  // namespace

std::optional<GpuRequest> parse_gpu_request(std::string_view tres) {
  GpuRequest request;
  bool good = true;
  split(tres, ',', [&](std::string_view item) {
    if (!item.starts_with("gres/") && !item.starts_with("gres:")) {
      good = false;
      return;
    }
    item.remove_prefix(5);
    std::vector<std::string_view> parts;
    const std::size_t equals = item.rfind('=');  // gpu:TYPE=2 is gpu:TYPE:2
    split(item.substr(0, equals), ':', [&parts](std::string_view part) { parts.push_back(part); });
    if (equals != std::string_view::npos) parts.push_back(item.substr(equals + 1));
    if (parts.empty() || parts[0] != "gpu") return;
    std::uint32_t count = 1;
    if (parts.size() > 1 && !number(parts.back(), count)) request.type = parts[1];
    if (parts.size() > 2) request.type = parts[1];
    request.count += count;
  });
  if (!good) return std::nullopt;
  return request;
}

bool matches_features(std::string_view constraint, const std::vector<std::string>& features) {
  if (constraint.empty()) return true;
  bool any = false;
  split(constraint, '|', [&](std::string_view terms) {
    bool all = true;
    split(terms, '&', [&](std::string_view name) { all &= std::ranges::find(features, name) != features.end(); });
    any |= all;
  });
  return any;
}

std::string print_ranges(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last != i) text += "-" + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

SlurmModel::SlurmModel(WallTime now, SlurmModelOptions options)
    : options_(std::move(options)), next_id_(options_.first_job_id) {
  touch_jobs(now);
  touch_nodes(now);
  restarted(now);
}

// --- small state -----------------------------------------------------------------------------------------------------

void SlurmModel::touch_jobs(WallTime now) {
  last_job_update_ = epoch_seconds(now);
}
void SlurmModel::touch_nodes(WallTime now) {
  last_node_update_ = epoch_seconds(now);
}
void SlurmModel::want_schedule(WallTime now) {
  if (!schedule_at_) schedule_at_ = now + options_.schedule_delay;
}

const SlurmModel::JobRecord* SlurmModel::job(JobId id) const noexcept {
  const auto it = jobs_.find(id.value);
  return it == jobs_.end() ? nullptr : &it->second;
}

const SlurmModel::NodeRecord* SlurmModel::node(const std::string& name) const noexcept {
  const auto it = nodes_.find(name);
  return it == nodes_.end() ? nullptr : &it->second;
}

const std::optional<std::set<std::string>>* SlurmModel::members(const std::string& partition) const {
  const auto it = members_.find(partition);
  return it == members_.end() ? nullptr : &it->second;
}

bool SlurmModel::in_partition(const std::string& node, const std::string& partition) const {
  const auto* set = members(partition);
  return set != nullptr && (!*set || (*set)->contains(node));
}

void SlurmModel::add_partition(std::string name, bool is_default, std::optional<std::vector<std::string>> nodes) {
  slurm::Partition partition;
  partition.name = name;
  partition.is_default = is_default;
  partition.states = {"UP"};
  partition.max_time = slurm::kInfinite;
  if (nodes) {
    partition.nodes = slurm::format_hostlist(*nodes);
    members_[name] = std::set<std::string>(nodes->begin(), nodes->end());
  } else {
    members_[name] = std::nullopt;
  }
  partitions_.push_back(std::move(partition));
}

void SlurmModel::set_partition_up(WallTime now, const std::string& name, bool up) {
  catch_up(now);
  up ? void(down_.erase(name)) : void(down_.insert(name));
  for (slurm::Partition& partition : partitions_) {
    if (partition.name == name) partition.states = {up ? "UP" : "DOWN"};
  }
  last_partition_update_ = std::max(last_partition_update_, epoch_seconds(now));
  want_schedule(now);
}

// --- nodes -----------------------------------------------------------------------------------------------------------

std::expected<void, SlurmNo> SlurmModel::add_node(WallTime now, std::string_view conf, bool dynamic) {
  catch_up(now);
  NodeRecord record;
  slurm::Node& view = record.view;
  view.sockets = view.cores = view.threads = 1;
  view.memory = 1;
  std::string names, state;
  bool bad = false;
  split(conf, ' ', [&](std::string_view word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      bad = true;
      return;
    }
    const std::string key(word.substr(0, equals));
    const std::string_view value = word.substr(equals + 1);
    if (key == "NodeName") names = value;
    if (key == "NodeAddr") view.address = value;
    if (key == "State") {  // words of slurm.conf are read without regard to case
      state = value;
      std::ranges::transform(state, state.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    }
    if (key == "CPUs") bad |= !number(value, view.cpus);
    if (key == "Sockets") bad |= !number(value, view.sockets);
    if (key == "CoresPerSocket") bad |= !number(value, view.cores);
    if (key == "ThreadsPerCore") bad |= !number(value, view.threads);
    if (key == "RealMemory") bad |= !number(value, view.memory);
    if (key == "Gres") view.gres = value;
    if (key == "Topology") view.topology = value;
    if (key == "Feature" || key == "Features") {
      split(value, ',', [&view](std::string_view feature) { view.features.emplace_back(feature); });
    }
  });
  const auto expanded = slurm::expand_hostlist(names);
  if (bad || !expanded) return no(-1, "Unspecified error");
  if (dynamic && state != "EXTERNAL" && state != "CLOUD" && state != "FUTURE") {
    return no(2028, "Invalid node state specified");
  }
  if (view.cpus == 0) view.cpus = view.sockets * view.cores * view.threads;
  view.active_features = view.features;
  view.states.base = NodeState::kIdle;
  if (dynamic) view.states.flags |= bit(NodeFlag::kDynamicNorm);
  if (state == "EXTERNAL") view.states.flags |= bit(NodeFlag::kExternal);
  if (!view.gres.empty()) {
    const auto gpus = parse_gpu_request("gres/" + view.gres);
    if (gpus) record.gpus = {gpus->type, gpus->count, {}};
  }
  for (const std::string& name : *expanded) {
    if (nodes_.contains(name)) return no(2168, "Node already exists");
  }
  for (const std::string& name : *expanded) {
    NodeRecord& made = nodes_[name] = record;
    made.view.name = name;
    if (made.view.address.empty()) made.view.address = name;
    for (const slurm::Partition& partition : partitions_) {
      if (in_partition(name, partition.name)) made.view.partitions.push_back(partition.name);
    }
    refresh(made);
  }
  last_partition_update_ = std::max(last_partition_update_, epoch_seconds(now));
  touch_nodes(now);
  want_schedule(now);
  return {};
}

void SlurmModel::refresh(NodeRecord& node) {
  slurm::Node& view = node.view;
  view.alloc_cpus = static_cast<std::uint32_t>(node.cores.size());
  view.gres_used = view.gres.empty() ? "" : fmt::format("gpu:{}:{}", node.gpus.type, node.gpus.used.size());
  if (view.states.base == NodeState::kDown || view.states.base == NodeState::kUnknown) return;
  if (node.jobs.empty()) {
    view.states.base = node.stranded ? NodeState::kAllocated : NodeState::kIdle;
  } else {
    view.states.base = view.alloc_cpus >= view.cpus ? NodeState::kAllocated : NodeState::kMixed;
  }
}

std::expected<void, SlurmNo> SlurmModel::update_node(WallTime now, const std::string& name,
                                                     const slurm::NodeUpdate& change) {
  catch_up(now);
  const auto it = nodes_.find(name);
  if (it == nodes_.end()) return no(2018, "Invalid node name specified");
  NodeRecord& node = it->second;
  slurm::Node& view = node.view;
  if (change.state) {
    const std::string& verb = *change.state;
    if (verb == "DRAIN") {
      view.states.flags |= bit(NodeFlag::kDrain);
    } else if (verb == "UNDRAIN") {
      view.states.flags &= ~bit(NodeFlag::kDrain);
      view.reason.clear();
    } else if (verb == "RESUME" || verb == "IDLE") {
      const bool idle = view.states.base != NodeState::kDown && !view.states.has(NodeFlag::kDrain);
      if ((idle && verb == "RESUME") || node.stranded) return no(2180, "Invalid node state transition requested");
      view.states.flags &= ~(bit(NodeFlag::kDrain) | bit(NodeFlag::kFail));
      view.states.base = NodeState::kIdle;
      view.reason.clear();
    } else if (verb == "DOWN") {
      const std::vector<std::uint32_t> victims(node.jobs.begin(), node.jobs.end());
      for (const std::uint32_t id : victims) finish(now, jobs_.at(id), JobState::kNodeFail, "NodeDown");
      view.states.base = NodeState::kDown;
      node.stranded = false;
    } else {
      return no(9207, "Unable to parse flag");
    }
  }
  // 26.05 keeps a reason only with a node that is drained or down.
  if (change.reason && (view.states.has(NodeFlag::kDrain) || view.states.base == NodeState::kDown)) {
    view.reason = *change.reason;
    view.reason_set_by = "root";
    view.reason_time = epoch_seconds(now);
  }
  if (change.comment) view.comment = *change.comment;
  if (change.extra) view.extra = *change.extra;
  if (change.topology) view.topology = *change.topology;
  if (change.features && !change.features->empty()) view.features = view.active_features = *change.features;
  refresh(node);
  touch_nodes(now);
  want_schedule(now);
  return {};
}

std::expected<void, SlurmNo> SlurmModel::delete_node(WallTime now, const std::string& name) {
  catch_up(now);
  const auto it = nodes_.find(name);
  if (it == nodes_.end()) return no(2018, "Invalid node name specified");
  if (!it->second.view.states.has(NodeFlag::kDynamicNorm)) return no(2028, "Invalid node state specified");
  if (!it->second.jobs.empty() || it->second.stranded) return no(2016, "Requested nodes are busy");
  nodes_.erase(it);
  touch_nodes(now);
  return {};
}

// --- jobs ------------------------------------------------------------------------------------------------------------

std::expected<void, SlurmNo> SlurmModel::validate(const JobRecord& job) const {
  const slurm::JobDescription& asked = job.asked;
  if (members(job.view.partition.str()) == nullptr) return no(2000, "Invalid partition name specified");
  if (asked.tres_per_node && !asked.tres_per_node->empty() && !parse_gpu_request(*asked.tres_per_node)) {
    return no(2115, "Invalid Trackable RESource (TRES) specification");
  }
  for (const std::string& name : names_of(asked.required_nodes)) {
    if (!nodes_.contains(name)) return no(2018, "Invalid node name specified");
  }
  const bool has_feature =
      asked.constraints.value_or("").empty() || std::ranges::any_of(nodes_, [&](const auto& entry) {
        return matches_features(*asked.constraints, entry.second.view.features);
      });
  if (!has_feature) return no(2029, "Invalid feature specification");
  const bool able = std::ranges::any_of(nodes_, [&](const auto& entry) { return could_ever_fit(job, entry.second); });
  if (!nodes_.empty() && !able) return no(2014, "Requested node configuration is not available");
  return {};
}

std::expected<JobId, SlurmNo> SlurmModel::submit(WallTime now, slurm::JobDescription asked, bool external,
                                                 std::optional<Duration> runs_for, std::string user) {
  catch_up(now);
  JobRecord record;
  slurm::Job& view = record.view;
  view.external = external;
  view.user = asked.user_id.value_or(std::move(user));
  view.partition = asked.partition.value_or("");
  if (view.partition.empty()) {
    const auto it = std::ranges::find_if(partitions_, &slurm::Partition::is_default);
    if (it == partitions_.end()) return no(2001, "No partition specified or system default partition");
    view.partition = it->name;
  }
  record.asked = std::move(asked);
  record.runs_for = runs_for;
  record.gpus = gpus_of(record.asked);
  if (auto valid = validate(record); !valid) return std::unexpected(valid.error());
  view.id = JobId{next_id_++};
  ++submitted_;
  view.name = record.asked.name.value_or("external");
  view.account = record.asked.account.value_or("");
  view.qos = record.asked.qos.value_or("");
  view.reservation = record.asked.reservation.value_or("");
  view.required_nodes = join(record.asked.required_nodes.value_or(std::vector<std::string>{}));
  view.excluded_nodes = join(record.asked.excluded_nodes.value_or(std::vector<std::string>{}));
  view.constraints = record.asked.constraints.value_or("");
  view.admin_comment = record.asked.admin_comment.value_or("");
  view.comment = record.asked.comment.value_or("");
  view.tres_per_node = record.asked.tres_per_node.value_or("");
  view.hold = record.asked.hold.value_or(false);
  view.priority = view.hold ? 0 : record.asked.priority.value_or(1000);
  view.time_limit = record.asked.time_limit.value_or(slurm::kInfinite);
  view.states.base = JobState::kPending;
  view.state_reason = view.hold ? "JobHeldUser" : "None";
  view.submit_time = epoch_seconds(now);
  const JobId id = view.id;
  jobs_.emplace(id.value, std::move(record));
  touch_jobs(now);
  want_schedule(now);
  return id;
}

std::expected<void, SlurmNo> SlurmModel::update_job(WallTime now, JobId id, const slurm::JobDescription& change) {
  catch_up(now);
  const auto it = jobs_.find(id.value);
  if (it == jobs_.end()) return no(2017, "Invalid job id specified");
  JobRecord& job = it->second;
  slurm::Job& view = job.view;
  if (view.states.ended()) return no(2084, "Job has already finished");
  if (view.states.base != JobState::kPending) {
    if (change.nodes && change.nodes->minimum > job.shares.size())
      return no(2073, "Job is no longer pending execution");
    if (change.tres_per_node && *change.tres_per_node != view.tres_per_node) {
      return no(2073, "Job is no longer pending execution");
    }
    const std::string excluded = join(change.excluded_nodes.value_or(std::vector<std::string>{}));
    if (change.excluded_nodes && (excluded.empty() || excluded != view.excluded_nodes)) {
      return no(2073, "Job is no longer pending execution");
    }
  }
  JobRecord changed = job;
  const auto take = [](auto& to, const auto& from) {
    if (from) to = from;
  };
  take(changed.asked.required_nodes, change.required_nodes);
  take(changed.asked.excluded_nodes, change.excluded_nodes);
  take(changed.asked.constraints, change.constraints);
  take(changed.asked.nodes, change.nodes);
  take(changed.asked.tasks, change.tasks);
  take(changed.asked.tasks_per_node, change.tasks_per_node);
  take(changed.asked.cpus_per_task, change.cpus_per_task);
  take(changed.asked.memory_per_node, change.memory_per_node);
  take(changed.asked.memory_per_cpu, change.memory_per_cpu);
  take(changed.asked.tres_per_node, change.tres_per_node);
  take(changed.asked.tres_per_task, change.tres_per_task);
  take(changed.asked.exclusive, change.exclusive);
  changed.gpus = gpus_of(changed.asked);
  slurm::Job& to = changed.view;
  if (change.partition) to.partition = *change.partition;
  if (auto valid = validate(changed); !valid) return valid;
  if (change.required_nodes) to.required_nodes = join(*change.required_nodes);
  if (change.excluded_nodes) to.excluded_nodes = join(*change.excluded_nodes);
  if (change.constraints) to.constraints = *change.constraints;
  if (change.tres_per_node) to.tres_per_node = *change.tres_per_node;
  if (change.name) to.name = *change.name;
  if (change.account) to.account = *change.account;
  if (change.qos) to.qos = *change.qos;
  if (change.reservation) to.reservation = *change.reservation;
  if (change.admin_comment) to.admin_comment = *change.admin_comment;
  if (change.comment) to.comment = *change.comment;
  if (change.time_limit) to.time_limit = change.time_limit;
  if (change.priority) to.priority = change.priority;
  if (change.hold) {
    to.hold = *change.hold;
    if (*change.hold) to.priority = 0;
    if (!*change.hold && to.priority == 0u) to.priority = 1000;
  }
  if (to.states.base == JobState::kPending) {
    to.hold = to.priority == 0u;
    if (to.hold) to.state_reason = "JobHeldUser";
    if (!to.hold && to.state_reason == "JobHeldUser") to.state_reason = "None";
  } else if (change.time_limit) {
    std::erase_if(ends_, [id](const auto& end) { return end.second == id.value; });
    if (to.time_limit != slurm::kInfinite) {
      const WallTime end = changed.started + std::chrono::minutes(*to.time_limit);
      to.end_time = epoch_seconds(end);
      ends_.emplace(end, id.value);
    }
  }
  job = std::move(changed);
  touch_jobs(now);
  want_schedule(now);
  return {};
}

std::expected<void, SlurmNo> SlurmModel::cancel(WallTime now, JobId id) {
  catch_up(now);
  const auto it = jobs_.find(id.value);
  if (it == jobs_.end()) return no(2017, "Invalid job id specified");
  if (it->second.view.states.ended()) return no(2021, "Job/step already completing or completed");
  finish(now, it->second, JobState::kCancelled, "None");
  return {};
}

void SlurmModel::end(WallTime now, JobId id, slurm::JobState state, std::string reason) {
  catch_up(now);
  const auto it = jobs_.find(id.value);
  if (it != jobs_.end() && !it->second.view.states.ended()) finish(now, it->second, state, std::move(reason));
}

void SlurmModel::lose_state(WallTime now, bool keep_nodes, bool reset_ids) {
  jobs_.clear();
  ends_.clear();
  purges_.clear();
  if (!keep_nodes) {
    std::erase_if(nodes_, [](const auto& entry) { return entry.second.view.states.has(NodeFlag::kDynamicNorm); });
  }
  for (auto& [name, node] : nodes_) {
    node.jobs.clear();
    node.cores.clear();
    node.gpus.used.clear();
    node.stranded = false;
    node.view.alloc_memory = 0;
    refresh(node);
  }
  if (reset_ids) next_id_ = options_.first_job_id;
  touch_jobs(now);
  touch_nodes(now);
  restarted(now);
}

void SlurmModel::strand(WallTime now, const std::string& node) {
  catch_up(now);
  const auto it = nodes_.find(node);
  if (it == nodes_.end() || !it->second.jobs.empty()) return;
  it->second.stranded = true;
  refresh(it->second);
  touch_nodes(now);
}

void SlurmModel::restarted(WallTime now) {
  last_partition_update_ = epoch_seconds(now);
}

}  // namespace bascule::testing

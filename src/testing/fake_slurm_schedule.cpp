// The scheduler of SlurmModel, and what happens by itself as time passes.
#include <fmt/format.h>

#include <algorithm>

#include "base/time.hpp"
#include "slurm/hostlist.hpp"
#include "testing/fake_slurm_model.hpp"

namespace bascule::testing {

namespace {

using slurm::JobState;
using slurm::NodeFlag;
using slurm::NodeState;

std::uint32_t cpus_of(const slurm::JobDescription& job) {
  return std::max(1u, job.tasks_per_node.value_or(1)) * std::max(1u, job.cpus_per_task.value_or(1));
}

bool usable(const slurm::Node& node) {
  if (node.states.base == NodeState::kDown || node.states.base == NodeState::kUnknown) return false;
  return !node.states.has(NodeFlag::kDrain) && !node.states.has(NodeFlag::kNotResponding) &&
         !node.states.has(NodeFlag::kFail);
}

bool listed(const std::optional<std::vector<std::string>>& lists, const std::string& name) {
  if (!lists) return false;
  return std::ranges::any_of(*lists, [&name](const std::string& list) {
    if (list == name) return true;
    if (list.find_first_of("[,") == std::string::npos) return false;
    return slurm::Hostlist::parse(list).contains(name);
  });
}

// Memory left out or 0 is the whole node's.
std::uint64_t memory_of(const slurm::JobDescription& job, const slurm::Node& node) {
  if (job.memory_per_cpu && !job.exclusive.value_or(false)) return *job.memory_per_cpu * cpus_of(job);
  const std::uint64_t asked = job.memory_per_node.value_or(0);
  return asked == 0 || job.exclusive.value_or(false) ? node.memory : asked;
}

}  // namespace

bool SlurmModel::could_ever_fit(const JobRecord& job, const NodeRecord& node) const {
  const slurm::JobDescription& asked = job.asked;
  const slurm::Node& view = node.view;
  if (!in_partition(view.name, job.view.partition.str())) return false;
  if (cpus_of(asked) > view.cpus || memory_of(asked, view) > view.memory) return false;
  // Batch jobs do not run where there is no slurmd.
  if (!job.view.external && view.states.has(NodeFlag::kExternal)) return false;
  return job.gpus.count <= node.gpus.count && (job.gpus.type.empty() || job.gpus.type == node.gpus.type);
}

bool SlurmModel::fits(const JobRecord& job, const NodeRecord& node) const {
  const slurm::JobDescription& asked = job.asked;
  const slurm::Node& view = node.view;
  if (!usable(view) || !could_ever_fit(job, node)) return false;
  if (listed(asked.excluded_nodes, view.name)) return false;
  if (!matches_features(asked.constraints.value_or(""), view.active_features)) return false;
  if (asked.exclusive.value_or(false) && !node.jobs.empty()) return false;
  if (view.cpus - view.alloc_cpus < cpus_of(asked)) return false;
  if (view.memory - view.alloc_memory < memory_of(asked, view)) return false;
  return node.gpus.count - node.gpus.used.size() >= job.gpus.count;
}

void SlurmModel::catch_up(WallTime now) {
  while (true) {
    std::optional<WallTime> next;
    const auto consider = [&](std::optional<WallTime> at) {
      if (at && *at <= now && (!next || *at < *next)) next = at;
    };
    consider(schedule_at_);
    if (!begins_.empty()) consider(*begins_.begin());
    if (!ends_.empty()) consider(ends_.begin()->first);
    if (!purges_.empty()) consider(purges_.begin()->first);
    if (!next) return;
    if (!ends_.empty() && ends_.begin()->first == *next) {
      JobRecord& job = jobs_.at(ends_.begin()->second);
      const bool by_itself = job.runs_for && job.started + *job.runs_for <= *next;
      finish(*next, job, by_itself ? JobState::kCompleted : JobState::kTimeout, by_itself ? "None" : "TimeLimit");
    } else if (!purges_.empty() && purges_.begin()->first == *next) {
      jobs_.erase(purges_.begin()->second);
      purges_.erase(purges_.begin());
      touch_jobs(*next);
    } else if (!begins_.empty() && *begins_.begin() == *next) {
      begins_.erase(begins_.begin());
      schedule(*next);
    } else {
      schedule_at_.reset();
      schedule(*next);
    }
  }
}

void SlurmModel::schedule(WallTime now) {
  std::vector<JobRecord*> queue;
  const auto waits_for = [this, now](JobRecord& job, const char* reason) {
    if (job.view.state_reason == reason) return;
    job.view.state_reason = reason;
    touch_jobs(now);
  };
  for (auto& [id, job] : jobs_) {
    if (job.view.states.base != JobState::kPending) continue;
    const bool down = !down_.empty() && !job.view.hold && down_.contains(job.view.partition.str());
    down ? waits_for(job, "PartitionDown") : queue.push_back(&job);
  }
  if (queue.empty()) return;
  std::ranges::sort(queue, {}, [](const JobRecord* job) {
    return std::pair(-std::int64_t{job->view.priority.value_or(0)}, job->view.id);
  });
  std::vector<NodeRecord*> free;
  for (auto& [name, node] : nodes_) {
    if (usable(node.view) && node.view.alloc_cpus < node.view.cpus) free.push_back(&node);
  }
  std::size_t depth = 0;
  bool blocked = false;
  for (JobRecord* job : queue) {
    if (job->view.hold || now < job->begin) continue;
    const bool looked_at = ++depth <= options_.schedule_depth && !free.empty();
    if (looked_at && try_start(now, *job, free)) continue;
    waits_for(*job, blocked ? "Priority" : "Resources");
    blocked = true;
  }
}

std::uint32_t SlurmModel::tasks_that_fit(const JobRecord& job, const NodeRecord& node) const {
  if (!fits(job, node)) return 0;
  std::uint64_t room = (node.view.cpus - node.view.alloc_cpus) / cpus_of(job.asked);
  if (const std::uint64_t memory = memory_of(job.asked, node.view); memory > 0) {
    room = std::min(room, (node.view.memory - node.view.alloc_memory) / memory);
  }
  if (job.gpus.count > 0)
    room = std::min<std::uint64_t>(room, (node.gpus.count - node.gpus.used.size()) / job.gpus.count);
  return static_cast<std::uint32_t>(room);
}

bool SlurmModel::try_start(WallTime now, JobRecord& job, std::vector<NodeRecord*>& free) {
  const slurm::NodeCount wanted = job.asked.nodes.value_or(1);
  std::vector<NodeRecord*> on;
  if (job.asked.tasks && job.view.required_nodes.empty()) {
    std::uint32_t left = *job.asked.tasks;
    std::vector<std::uint32_t> tasks;
    for (NodeRecord* node : free) {
      const std::uint32_t here = std::min(left, tasks_that_fit(job, *node));
      if (here == 0 || on.size() >= wanted.maximum) continue;
      on.push_back(node);
      tasks.push_back(here);
      left -= here;
    }
    if (left > 0 || on.size() < wanted.minimum) return false;
    start(now, job, on, std::move(tasks));
    std::erase_if(free, [](const NodeRecord* node) { return node->view.alloc_cpus >= node->view.cpus; });
    return true;
  }
  std::size_t required = 0;
  if (job.asked.required_nodes) {
    for (const std::string& list : *job.asked.required_nodes) {
      const auto names = slurm::expand_hostlist(list);
      required += names ? names->size() : 0;
    }
  }
  // Required nodes must all be in; when more are required than nodes are wanted, all of them are taken.
  for (NodeRecord* node : free) {
    if (required > 0 && listed(job.asked.required_nodes, node->view.name) && fits(job, *node)) on.push_back(node);
  }
  if (on.size() < required) return false;
  for (NodeRecord* node : free) {
    if (on.size() >= wanted.maximum) break;
    if (std::ranges::find(on, node) == on.end() && fits(job, *node)) on.push_back(node);
  }
  if (on.size() < wanted.minimum) return false;
  std::ranges::sort(on, {}, [](const NodeRecord* node) { return node->view.name; });
  start(now, job, on);
  std::erase_if(free, [](const NodeRecord* node) { return node->view.alloc_cpus >= node->view.cpus; });
  return true;
}

void SlurmModel::start(WallTime now, JobRecord& job, const std::vector<NodeRecord*>& on,
                       std::vector<std::uint32_t> tasks) {
  tasks.resize(on.size(), 1);
  slurm::Job& view = job.view;
  std::vector<std::string> names;
  view.gres_detail.clear();
  for (std::size_t i = 0; i < on.size(); ++i) {
    NodeRecord* node = on[i];
    Share share;
    share.node = node->view.name;
    share.cpus = job.asked.exclusive.value_or(false) ? node->view.cpus : cpus_of(job.asked) * tasks[i];
    share.memory = memory_of(job.asked, node->view) * tasks[i];
    for (std::uint32_t core = 0; share.cores.size() < share.cpus; ++core) {
      if (node->cores.emplace(core, view.id.value).second) share.cores.push_back(core);
    }
    const std::uint32_t count = job.asked.exclusive.value_or(false) ? node->gpus.count : job.gpus.count * tasks[i];
    for (std::uint32_t gpu = 0; share.gpus.size() < count; ++gpu) {
      if (node->gpus.used.insert(gpu).second) share.gpus.push_back(gpu);
    }
    if (count > 0) {
      view.gres_detail.push_back(fmt::format("gpu:{}:{}(IDX:{})", node->gpus.type, count, print_ranges(share.gpus)));
    }
    node->view.alloc_memory += share.memory;
    node->jobs.insert(view.id.value);
    refresh(*node);
    names.push_back(share.node);
    job.shares.push_back(std::move(share));
  }
  view.nodes = slurm::format_hostlist(names);
  view.states.base = JobState::kRunning;
  view.state_reason = "None";
  view.start_time = epoch_seconds(now);
  view.end_time = 0;
  job.started = now;
  std::optional<WallTime> end;
  if (view.time_limit && *view.time_limit != slurm::kInfinite) {
    end = now + std::chrono::minutes(*view.time_limit);
    view.end_time = epoch_seconds(*end);
  }
  if (job.runs_for) end = end ? std::min(*end, now + *job.runs_for) : now + *job.runs_for;
  if (end) ends_.emplace(*end, view.id.value);
  touch_jobs(now);
  touch_nodes(now);
}

void SlurmModel::release(JobRecord& job) {
  for (const Share& share : job.shares) {
    const auto it = nodes_.find(share.node);
    if (it == nodes_.end()) continue;
    NodeRecord& node = it->second;
    for (const std::uint32_t core : share.cores) node.cores.erase(core);
    for (const std::uint32_t gpu : share.gpus) node.gpus.used.erase(gpu);
    node.view.alloc_memory -= share.memory;
    node.jobs.erase(job.view.id.value);
    node.stranded = false;
    refresh(node);
  }
}

void SlurmModel::requeue(WallTime now, JobId id, Duration delay) {
  catch_up(now);
  const auto it = jobs_.find(id.value);
  if (it == jobs_.end() || it->second.view.states.base != JobState::kRunning) return;
  JobRecord& job = it->second;
  job.begin = now + delay;
  begins_.insert(job.begin);
  job.view.state_reason = "BeginTime";
  job.view.start_time = epoch_seconds(job.begin);
  ++job.view.restart_count;
  wait_again(now, job);
}

void SlurmModel::forget_start(WallTime now, JobId id) {
  catch_up(now);
  const auto it = jobs_.find(id.value);
  if (it == jobs_.end() || it->second.view.states.base != JobState::kRunning) return;
  it->second.view.state_reason = "None";
  it->second.view.start_time = 0;
  wait_again(now, it->second);
}

void SlurmModel::fail_launch(WallTime now, JobId id) {
  catch_up(now);
  const auto it = jobs_.find(id.value);
  if (it == jobs_.end() || it->second.view.states.base != JobState::kRunning) return;
  slurm::Job& view = it->second.view;
  view.state_reason = "JobHeldUser";
  view.state_description = "launch failed requeued held";
  view.hold = true;
  view.priority = 0;
  view.start_time = 0;
  ++view.restart_count;
  wait_again(now, it->second);
}

void SlurmModel::wait_again(WallTime now, JobRecord& job) {
  slurm::Job& view = job.view;
  std::erase_if(ends_, [&view](const auto& end) { return end.second == view.id.value; });
  release(job);
  job.shares.clear();
  view.states = {.base = JobState::kPending};
  view.nodes.clear();
  view.gres_detail.clear();
  view.end_time = 0;
  touch_jobs(now);
  touch_nodes(now);
  want_schedule(now);
}

void SlurmModel::expect_start(WallTime now, JobId id, Duration in) {
  catch_up(now);
  const auto it = jobs_.find(id.value);
  if (it == jobs_.end() || it->second.view.states.base != JobState::kPending) return;
  it->second.view.start_time = epoch_seconds(now + in);
  touch_jobs(now);
}

void SlurmModel::finish(WallTime now, JobRecord& job, slurm::JobState state, std::string reason) {
  slurm::Job& view = job.view;
  std::erase_if(ends_, [&view](const auto& end) { return end.second == view.id.value; });
  release(job);
  view.states.base = state;
  view.state_reason = std::move(reason);
  view.end_time = epoch_seconds(now);
  if (view.start_time == 0) view.start_time = view.end_time;
  view.gres_detail.clear();
  job.ended = now;
  purges_.emplace(now + options_.min_job_age, view.id.value);
  touch_jobs(now);
  touch_nodes(now);
  want_schedule(now);
}

}  // namespace bascule::testing

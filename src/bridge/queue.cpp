#include "bridge/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "base/text.hpp"
#include "base/text_table.hpp"
#include "base/time.hpp"
#include "bridge/record.hpp"
#include "bridge/unit_jobs.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

namespace {

constexpr std::size_t kNameWidth = 24;
constexpr std::size_t kWhereWidth = 32;

bool is_shown(const slurm::Job& job) {
  return !job.states.ended() || job.states.has(slurm::JobFlag::kCompleting);
}

bool is_pending(const slurm::Job& job) {
  return job.states.base == slurm::JobState::kPending;
}

std::vector<NamespacedName> names_of(const std::vector<PodPtr>& pods) {
  std::vector<NamespacedName> out;
  for (const PodPtr& pod : pods) out.push_back(pod->meta.key);
  return out;
}

std::uint32_t nodes_of(const slurm::Job& job) {
  if (job.nodes.empty()) return 0;
  const auto hosts = slurm::expand_hostlist(job.nodes);
  return hosts ? static_cast<std::uint32_t>(hosts->size()) : 0;
}

QueueRow row_of(const slurm::Job& job, WallTime now) {
  QueueRow row;
  row.job = job.id;
  row.partition = job.partition;
  row.name = job.name;
  row.user = job.user;
  row.account = job.account;
  row.qos = job.qos;
  row.state = slurm::print(job.states);
  row.priority = job.priority;
  row.nodes = nodes_of(job);
  row.node_list = job.nodes;
  if (is_pending(job)) {
    row.reason = job.state_reason == "None" ? "" : job.state_reason;
    if (job.start_time > 0) row.expected = print_rfc3339(WallTime(std::chrono::seconds(job.start_time)));
  } else if (job.start_time > 0) {
    row.seconds = std::max<std::int64_t>(0, epoch_seconds(now) - job.start_time);
  }
  return row;
}

// Pods that no job of the list stands for, a row a unit.
std::vector<QueueRow> rows_without_job(std::vector<PodPtr> pods) {
  std::map<Uid, std::vector<PodPtr>> units;
  for (PodPtr& pod : pods) units[unit_of(*pod)].push_back(std::move(pod));
  std::vector<std::pair<WallTime, QueueRow>> aged;
  for (auto& [unit, members] : units) {
    sort_by_rank(members);
    const kube::Pod& first = *members.front();
    QueueRow row;
    if (const auto group = group_of(first)) row.name = group->object.name;
    const bool gated = std::ranges::none_of(members, [](const PodPtr& pod) { return wants_node(*pod); });
    row.state = gated ? "GATED" : "WAITING";
    row.nodes = static_cast<std::uint32_t>(members.size());
    row.pods = names_of(members);
    WallTime oldest = first.meta.created;
    for (const PodPtr& pod : members) {
      oldest = std::min(oldest, pod->meta.created);
      if (row.reason.empty() && pod->scheduled.status == "False") row.reason = pod->scheduled.reason.str();
    }
    aged.emplace_back(oldest, std::move(row));
  }
  std::ranges::sort(aged, {}, [](const auto& entry) { return std::tuple(entry.first, entry.second.pods.front()); });
  std::vector<QueueRow> out;
  for (auto& [age, row] : aged) out.push_back(std::move(row));
  return out;
}

// Both may be lists: a job that waits may have several partitions.
bool share_one(std::string_view a, std::string_view b) {
  return std::ranges::any_of(std::views::split(a, ','), [b](auto one) {
    return std::ranges::any_of(std::views::split(b, ','), [one](auto other) {
      return trimmed(std::string_view(one)) == trimmed(std::string_view(other));
    });
  });
}

bool is_of_namespace(const QueueRow& row, const QueueFilter& filter) {
  return filter.ns.empty() || std::ranges::any_of(row.pods, [&](const auto& pod) { return pod.ns == filter.ns; });
}

std::string_view paint_of(const QueueRow& row) {
  if (row.state.starts_with("RUNNING") || row.state.starts_with("COMPLETING")) return colour::kGreen;
  if (row.state.starts_with("PENDING") || !row.job) return colour::kYellow;
  return colour::kRed;
}

std::string where_of(const QueueRow& row) {
  if (!row.node_list.empty()) return row.node_list;
  return row.reason.empty() ? "" : "(" + row.reason + ")";
}

std::string pods_of(const QueueRow& row, bool all) {
  std::string out;
  for (const NamespacedName& pod : row.pods) {
    if (!all && &pod != &row.pods.front()) return out + fmt::format(" +{}", row.pods.size() - 1);
    out += (out.empty() ? "" : ",") + pod.str();
  }
  return out;
}

std::string number(std::uint32_t value) {
  return value == 0 ? "" : std::to_string(value);
}

}  // namespace

Queue make_queue(const std::vector<slurm::Job>& jobs, const std::vector<PodPtr>& pods, const QueueFilter& filter,
                 WallTime now) {
  std::map<JobId, std::vector<PodPtr>> labelled;
  for (const PodPtr& pod : pods) {
    if (const JobId job = label_of(*pod); job && !pod->terminal()) labelled[job].push_back(pod);
  }
  std::vector<const slurm::Job*> shown;
  for (const slurm::Job& job : jobs) {
    if (is_shown(job)) shown.push_back(&job);
  }
  std::ranges::sort(shown, {}, [](const slurm::Job* job) {
    const std::int64_t priority = is_pending(*job) ? job->priority.value_or(0) : 0;
    return std::tuple(is_pending(*job), -priority, job->id);
  });
  Queue queue;
  std::vector<QueueRow>& rows = queue.rows;
  std::unordered_set<JobId> listed;
  for (const slurm::Job* job : shown) {
    QueueRow row = row_of(*job, now);
    const auto record = parse_record(job->admin_comment);
    const bool of_another = record && !record->legacy && !filter.cluster.empty() && record->cluster != filter.cluster;
    if (!of_another) {
      listed.insert(job->id);
      if (const auto known = labelled.find(job->id); known != labelled.end()) {
        sort_by_rank(known->second);
        row.pods = names_of(known->second);
      } else if (record && (job->external || !record->legacy)) {
        row.pods = record->pods;
      }
    }
    // A job of the bridge asks for a node a pod.
    if (row.nodes == 0) row.nodes = static_cast<std::uint32_t>(of_another ? record->pods.size() : row.pods.size());
    rows.push_back(std::move(row));
  }
  std::vector<PodPtr> alone;
  for (const PodPtr& pod : pods) {
    if (pod->bound() || pod->terminal() || pod->deleting()) continue;
    if (!listed.contains(label_of(*pod))) alone.push_back(pod);
  }
  std::ranges::move(rows_without_job(std::move(alone)), std::back_inserter(rows));
  std::erase_if(rows, [&filter](const QueueRow& row) { return !is_of_namespace(row, filter); });
  if (filter.partition.empty()) return queue;
  queue.without_job =
      static_cast<std::size_t>(std::ranges::count_if(rows, [](const QueueRow& row) { return !row.job; }));
  std::erase_if(rows, [&filter](const QueueRow& row) { return !share_one(row.partition, filter.partition); });
  return queue;
}

std::string to_text(const std::vector<QueueRow>& rows, bool wide, bool colours) {
  std::vector<std::string> head{"JOBID", "PARTITION", "NAME", "USER", "STATE", "TIME", "NODES", "NODELIST(REASON)"};
  if (wide) head.insert(head.end(), {"ACCOUNT", "QOS", "PRIORITY", "EXPECTED"});
  head.emplace_back("NAMESPACE/POD");
  TextTable table(std::move(head));
  for (const QueueRow& row : rows) {
    const std::string where = where_of(row);
    std::vector<TextTable::Cell> cells{row.job ? row.job.str() : "",
                                       row.partition,
                                       wide ? row.name : cut_text(row.name, kNameWidth),
                                       row.user,
                                       {row.state, paint_of(row)},
                                       row.job ? print_run_time(row.seconds) : "",
                                       number(row.nodes),
                                       wide ? where : cut_text(where, kWhereWidth)};
    if (wide) {
      cells.emplace_back(row.account);
      cells.emplace_back(row.qos);
      cells.emplace_back(row.priority ? std::to_string(*row.priority) : "");
      cells.emplace_back(row.expected);
    }
    cells.emplace_back(pods_of(row, wide));
    table.add(std::move(cells));
  }
  return table.str(colours);
}

json::Value to_json(const std::vector<QueueRow>& rows) {
  json::Array out;
  for (const QueueRow& row : rows) {
    json::Array pods;
    for (const NamespacedName& pod : row.pods) {
      pods.push_back(json::Object{{"namespace", pod.ns}, {"name", pod.name}});
    }
    json::Object object{{"job", row.job.value},      {"partition", row.partition}, {"name", row.name},
                        {"user", row.user},          {"account", row.account},     {"qos", row.qos},
                        {"state", row.state},        {"seconds", row.seconds},     {"nodes", row.nodes},
                        {"nodeList", row.node_list}, {"reason", row.reason},       {"expectedStart", row.expected},
                        {"pods", std::move(pods)}};
    object["priority"] = row.priority ? json::Value(*row.priority) : json::Value(nullptr);
    if (!row.job) object["job"] = nullptr;
    out.push_back(std::move(object));
  }
  return json::Object{{"queue", std::move(out)}};
}

std::string print_run_time(std::int64_t seconds) {
  const std::int64_t days = seconds / 86400;
  const std::int64_t hours = seconds / 3600 % 24;
  const std::int64_t minutes = seconds / 60 % 60;
  if (days > 0) return fmt::format("{}-{:02}:{:02}:{:02}", days, hours, minutes, seconds % 60);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, seconds % 60);
  return fmt::format("{}:{:02}", minutes, seconds % 60);
}

Task<QueueContent> read_queue(kube::Client& kube, slurm::Client& slurm, std::string ns, std::string scheduler_name) {
  QueueContent out;
  const std::string ours = "spec.schedulerName=" + scheduler_name + ",status.phase!=Succeeded,status.phase!=Failed";
  const json::Value list = co_await kube.list(kube::resources::kPods, std::move(ns), {"", ours});
  json::Interner interner;
  if (const json::Array* items = json::array_at(list, {"items"})) {
    for (const json::Value& item : *items) out.pods.push_back(kube::decode_pod(json::dump(item), interner));
  }
  try {
    const json::Value system = co_await kube.get(kube::resources::kNamespaces, {"", "kube-system"});
    out.cluster = json::string_at(system, {"metadata", "uid"});
  } catch (const kube::Forbidden&) {
  }
  slurm::JobList jobs = co_await slurm.list_jobs();
  out.jobs = std::move(jobs.jobs);
  co_return out;
}

}  // namespace bascule::bridge

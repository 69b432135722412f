#include "bridge/explain_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text_table.hpp"
#include "bridge/explain_remedy.hpp"
#include "bridge/names.hpp"
#include "bridge/owners.hpp"

namespace bascule::bridge {

namespace {

using Member = GroupExplanation::Member;

std::string how_joined(GroupKind kind) {
  switch (kind) {
    case GroupKind::kWorkload:
      return "spec.schedulingGroup.podGroupName";
    case GroupKind::kCoscheduling:
      return "the label " + std::string(names::kPodGroup);
    case GroupKind::kLeaderWorker:
      break;
  }
  return "the label " + std::string(names::kLwsName);
}

bool other_scheduler(const kube::Pod& pod) {
  return pod.scheduler_name == "default-scheduler" || pod.scheduler_name.empty();
}

std::string stands(const kube::Pod& pod) {
  if (pod.phase == kube::PodPhase::kSucceeded) return "done";
  if (pod.phase == kube::PodPhase::kFailed) return "failed";
  if (pod.deleting()) return "going";
  if (other_scheduler(pod)) return "other scheduler";
  if (pod.bound()) return pod.phase == kube::PodPhase::kRunning ? "runs" : "starts";
  return pod.scheduling_gates.empty() ? "waits" : "gated";
}

bool on_node(const std::string& stand) {
  return stand == "runs" || stand == "starts";
}

// The message of the condition SlurmJobKnown while that is false.
std::string job_unknown_of(const kube::Pod& pod) {
  for (const auto& [type, condition] : pod.conditions) {
    if (type == names::kSlurmJobKnown && condition.status == "False") return condition.message.str();
  }
  return {};
}

std::string why(const kube::Pod& pod, const std::string& stand) {
  if (on_node(stand)) return label_of(pod) ? job_unknown_of(pod) : "it has no Slurm job";
  if (stand == "waits") return pod.scheduled.status == "False" ? pod.scheduled.message.str() : std::string();
  if (stand == "other scheduler") return "its schedulerName is " + pod.scheduler_name.str() + ": it does not count";
  if (stand == "failed") return pod.status_reason.str();
  if (stand != "gated") return {};
  std::string gates = "scheduling gates:";
  for (const auto& gate : pod.scheduling_gates) gates += " " + gate.str();
  return gates;
}

std::string pods_text(std::size_t count) {
  return count == 1 ? "1 pod" : std::to_string(count) + " pods";
}

std::string jobs_text(const std::set<std::string>& jobs) {
  std::string out = jobs.size() == 1 ? "Slurm job " : "the Slurm jobs ";
  for (const std::string& job : jobs) out += (job == *jobs.begin() ? "" : ", ") + job;
  return out;
}

class Judge final {
 public:
  Judge(GroupExplanation& out, const Group& group, const Root* root) : out_(out), group_(group), root_(root) {
    for (const Member& member : out.members) {
      ++counts_[member.stands];
      if (member.stands == "waits") waits(member);
      if (!on_node(member.stands)) continue;
      if (member.why.empty()) held_jobs_.insert(member.job);
      if (!member.why.empty()) ++lost_;
    }
  }

  void run(const std::string& problem) {
    const bool may_not = problem.find(kMayNotBeRead) != std::string::npos;
    if (nobody_waits()) {
      say_placed();
      if (placed() > 0 && root_ == nullptr && !may_not) {
        out_.next += " T" + problem.substr(1) + "; no other pod of it starts meanwhile.";
      }
    } else if (root_ == nullptr && !may_not) {
      out_.verdict = "The group cannot be read: " + problem + ".";
      out_.next = "Its pods wait until it can be: create it, or take " + how_joined(group_.kind) + " from the pods.";
    } else if (root_ != nullptr && root_->gang && !root_->gang->closed.empty()) {
      out_.verdict = "The group " + root_->gang->closed + ": none of its pods starts any more.";
      out_.next = "Make a new group for new pods.";
    } else if (out_.members.empty()) {
      out_.verdict = "No pod names the group yet.";
      out_.next = "It starts when " + pods_text(out_.minimum) + " name it by " + how_joined(group_.kind) + ".";
    } else if (out_.present < out_.minimum) {
      too_few();
    } else {
      some_wait();
    }
  }

 private:
  std::size_t count(const char* stand) const {
    const auto it = counts_.find(stand);
    return it == counts_.end() ? 0 : it->second;
  }
  std::size_t placed() const { return count("runs") + count("starts"); }
  bool nobody_waits() const {
    if (out_.members.empty() || count("waits") > 0 || count("gated") > 0) return false;
    return placed() > 0 || count("other scheduler") == 0;
  }

  // What is said of all is what somebody must act for, if that is so of one.
  void waits(const Member& member) {
    if (std::string job = queued_job(member.why); !job.empty()) queued_jobs_.insert(std::move(job));
    std::string remedy = remedy_of(member.reason, member.why);
    if (!remedy_.empty() || (remedy.empty() && !reason_.empty())) return;
    reason_ = member.why;
    remedy_ = std::move(remedy);
  }

  void say_placed() {
    if (placed() == 0) {
      out_.verdict = "All its pods are over or going.";
      out_.next = "Slurm's nodes are free, or will be as soon as the pods have really ended.";
      return;
    }
    out_.verdict = fmt::format("{} {} on nodes{}", pods_text(placed()), placed() == 1 ? "is" : "are",
                               held_jobs_.empty() ? "" : ", held by " + jobs_text(held_jobs_));
    out_.next = "They run; they are deleted if their Slurm job ends first.";
    if (lost_ > 0) {
      out_.verdict += fmt::format("; of {} Slurm does not know a job: it may give their nodes to others", lost_);
      out_.next = "Drain those nodes, or delete the pods.";
    }
    out_.verdict += ".";
  }

  void too_few() {
    const std::size_t missing = out_.minimum - out_.present;
    out_.verdict = fmt::format("{} of the {} pods that must start together {} there.", out_.present, out_.minimum,
                               out_.present == 1 ? "is" : "are");
    out_.next = fmt::format("The others wait for {} more; Slurm gets one job for all of them then.", missing);
    if (count("gated") > 0) {
      out_.next +=
          " " + pods_text(count("gated")) + " would count without scheduling gates: whoever set them removes them.";
    }
    if (count("other scheduler") > 0) {
      const bool one = count("other scheduler") == 1;
      out_.next += " " + pods_text(count("other scheduler")) +
                   (one ? " belongs to another scheduler and does not count."
                        : " belong to another scheduler and do not count.");
    }
  }

  void some_wait() {
    const std::size_t waiting = count("waits");
    out_.verdict =
        root_ != nullptr
            ? fmt::format("{} pods are there, {} must start together; ", out_.present, out_.minimum)
            : fmt::format("{} pods are there; you may not read how many must start together; ", out_.present);
    if (placed() > 0) out_.verdict += fmt::format("{} have nodes, ", placed());
    out_.verdict += fmt::format("{} {}", waiting, waiting == 1 ? "waits" : "wait");
    if (count("gated") > 0) out_.verdict += fmt::format(", {} gated", count("gated"));
    out_.verdict += reason_.empty() ? "." : ": " + reason_ + ".";
    if (waiting == 0) {
      out_.next = "Whoever set the scheduling gates removes them.";
    } else if (!remedy_.empty()) {
      out_.next = remedy_;
    } else if (queued_jobs_.empty()) {
      out_.next = "A Slurm job for those who wait is submitted when that is over.";
    } else if (placed() > 0) {
      out_.next = "Those who wait are bound as soon as " + jobs_text(queued_jobs_) +
                  (queued_jobs_.size() == 1 ? " has" : " have") + " nodes for them.";
    } else {
      out_.next = "All are bound at once as soon as " + jobs_text(queued_jobs_) +
                  (queued_jobs_.size() == 1 ? " runs" : " run") + ". `scontrol show job " + *queued_jobs_.begin() +
                  "` tells what Slurm thinks.";
    }
  }

  GroupExplanation& out_;
  const Group& group_;
  const Root* root_;
  std::map<std::string, std::size_t> counts_;
  std::set<std::string> queued_jobs_;
  std::set<std::string> held_jobs_;
  std::size_t lost_ = 0;  // on nodes, without a job that Slurm knows
  std::string reason_;    // what the others wait for, in the scheduler's words
  std::string remedy_;
};

}  // namespace

GroupExplanation explain_group(const Group& group, const std::variant<Root, std::string>& root,
                               std::vector<PodPtr> pods) {
  sort_by_rank(pods);
  GroupExplanation out;
  out.group = name_of_group(group, pods.empty() ? nullptr : pods.front());
  for (const PodPtr& one : pods) {
    const kube::Pod& pod = *one;
    const JobId job = label_of(pod);
    const std::string stand = stands(pod);
    out.members.push_back({pod.meta.key.name, stand, job ? job.str() : "", pod.node_name.str(), why(pod, stand),
                           stand == "waits" ? pod.scheduled.reason.str() : std::string()});
    if (on_node(stand) || stand == "waits" || stand == "done") ++out.present;
  }
  const Root* known = std::get_if<Root>(&root);
  if (known != nullptr) out.minimum = known->gang ? known->gang->minimum : 1;
  Judge(out, group, known).run(known == nullptr ? std::get<std::string>(root) : std::string());
  return out;
}

std::string to_text(const GroupExplanation& e, bool colours) {
  const std::string_view bold = colours ? colour::kBold : "";
  const std::string_view plain = colours ? colour::kPlain : "";
  std::string text = fmt::format("{}{}{}\n{}\n{}\n", bold, e.group, plain, plain_text(e.verdict), plain_text(e.next));
  if (e.members.empty()) return text;
  TextTable table({"POD", "STANDS", "SLURM JOB", "NODE", "WHY"});
  for (const Member& m : e.members) {
    const std::string_view paint = m.stands == "runs" || m.stands == "starts"   ? colour::kGreen
                                   : m.stands == "waits" || m.stands == "gated" ? colour::kYellow
                                   : m.stands == "failed"                       ? colour::kRed
                                                                                : std::string_view();
    // What all say is said once, above.
    const bool said = !m.why.empty() && e.verdict.find(m.why) != std::string::npos;
    table.add({m.pod, {m.stands, paint}, m.job, m.node, said ? "as above" : m.why});
  }
  return text + "\n" + table.str(colours, "  ");
}

json::Value to_json(const GroupExplanation& e) {
  json::Array members;
  for (const Member& m : e.members) {
    members.push_back(
        json::Object{{"pod", m.pod}, {"stands", m.stands}, {"job", m.job}, {"node", m.node}, {"why", m.why}});
  }
  return json::Object{{"group", e.group},     {"minimum", e.minimum}, {"present", e.present},
                      {"verdict", e.verdict}, {"next", e.next},       {"members", std::move(members)}};
}

std::string name_of_group(const Group& group, const PodPtr& member) {
  if (group.kind != GroupKind::kLeaderWorker) return "PodGroup " + group.object.str();
  std::string name = "LeaderWorkerSet " + group.object.str();
  if (member == nullptr) return name;
  const std::string_view index = kube::value_or(member->meta.labels, names::kLwsGroupIndex);
  return name + ", group " + (index.empty() ? std::string("?") : std::string(index));
}

}  // namespace bascule::bridge

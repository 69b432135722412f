#include "operator/explain/pod.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/time.hpp"
#include "kube/condition.hpp"
#include "operator/api/names.hpp"
#include "operator/explain/fields.hpp"
#include "operator/nodeset/facts.hpp"
#include "operator/nodeset/pod_plan.hpp"
#include "operator/nodeset/slurm_node.hpp"
#include "operator/nodeset/view.hpp"

namespace bascule::op::explain {

namespace {

using nodeset::PodCondition;
using nodeset::PodPhase;
using nodeset::PodView;

// A container that keeps the pod from running, as kubelet tells it.
struct Stuck {
  std::string container, reason, message;
  std::optional<WallTime> since;
  Stand stand = Stand::kStarting;
};

Stand stand_of(std::string_view reason) {
  constexpr std::array<std::string_view, 5> kImage{"ErrImagePull", "ImagePullBackOff", "InvalidImageName",
                                                   "ErrImageNeverPull", "RegistryUnavailable"};
  constexpr std::array<std::string_view, 3> kConfig{"CreateContainerConfigError", "CreateContainerError",
                                                    "RunContainerError"};
  if (std::ranges::find(kImage, reason) != kImage.end()) return Stand::kImage;
  if (std::ranges::find(kConfig, reason) != kConfig.end()) return Stand::kConfig;
  return reason == "CrashLoopBackOff" ? Stand::kCrashing : Stand::kStarting;
}

// The worst of them; of equals the first.
std::optional<Stuck> stuck_container(const json::Value& pod) {
  std::optional<Stuck> worst;
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    const json::Array* containers = json::array_at(pod, {"status", list});
    if (containers == nullptr) continue;
    for (const json::Value& c : *containers) {
      const std::string reason = text_at(c, {"state", "waiting", "reason"});
      if (reason.empty()) continue;
      Stuck stuck{text_at(c, {"name"}), reason, text_at(c, {"state", "waiting", "message"}),
                  time_at(c, {"lastState", "terminated", "finishedAt"}), stand_of(reason)};
      if (stuck.stand == Stand::kCrashing && json::find(c, {"lastState", "terminated", "exitCode"}) != nullptr) {
        stuck.message =
            fmt::format("it ended with {}", json::int_at(c, {"lastState", "terminated", "exitCode"}).value_or(0));
      }
      if (!worst || stuck.stand > worst->stand) worst = std::move(stuck);
    }
  }
  return worst;
}

// What ended, of a pod that has.
std::string end_of(const json::Value& pod, std::optional<WallTime>& since) {
  std::string why = text_at(pod, {"status", "message"});
  if (why.empty()) why = text_at(pod, {"status", "reason"});
  const json::Array* containers = json::array_at(pod, {"status", "containerStatuses"});
  if (containers == nullptr) return why;
  for (const json::Value& c : *containers) {
    const auto code = json::int_at(c, {"state", "terminated", "exitCode"});
    if (!code) continue;
    since = std::max(since, time_at(c, {"state", "terminated", "finishedAt"}));
    if (*code != 0 && why.empty()) why = fmt::format("container {} ended with {}", text_at(c, {"name"}), *code);
  }
  return why;
}

std::string join(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + "; " + b;
}

// How long its jobs may take, by the annotation that the operator keeps.
std::string jobs_until(const PodView& view) {
  const auto deadline = view.deadline ? parse_rfc3339(*view.deadline) : std::nullopt;
  if (!deadline) return {};
  return *deadline >= nodeset::kNever ? "its jobs have no time limit" : "jobs until " + *view.deadline;
}

std::string cause_text(const PodView& view) {
  if (!view.cordoned()) return {};
  if (!view.cordon_cause) return fmt::format("cordoned by annotation {}", names::kPodCordon);
  if (*view.cordon_cause == nodeset::kNodeCause) return fmt::format("node {} is cordoned", view.node);
  if (*view.cordon_cause == nodeset::to_string(nodeset::Cause::kScaleIn)) return "it is to be scaled in";
  if (*view.cordon_cause == nodeset::to_string(nodeset::Cause::kUpdate)) return "it is to be updated";
  return "it is to be replaced";
}

// A worker that Kubernetes calls ready, by the state of its Slurm node.
class SlurmJudge final {
 public:
  SlurmJudge(const PodView& view, PodStand& to) : view_(view), to_(to) {}

  void judge() {
    const std::vector<PodCondition>& all = view_.slurm_conditions;
    if (all.empty()) {
      say(Stand::kUnregistered, "not in Slurm", view_.ready_since,
          "Slurm has no node of it, or the operator cannot ask");
      return;
    }
    if (nodeset::conditions_drain(all)) {
      drained();
      return;
    }
    for (const char* state : {"Down", "Error", "Fail", "NotResponding", "InvalidReg", "Invalid", "Future", "Unknown"}) {
      const PodCondition* c = find(state);
      if (c == nullptr) continue;
      say(Stand::kDown, lower(state), c->since, without_mark(c->message));
      return;
    }
    if (const PodCondition* c = find("Maintenance")) {
      say(Stand::kMaintenance, "maintenance", c->since, without_mark(c->message));
      return;
    }
    const std::string cause = cause_text(view_);
    for (const char* state : {"Completing", "Allocated", "Mixed", "Idle"}) {
      const PodCondition* c = find(state);
      if (c == nullptr) continue;
      const bool idle = std::string_view(state) == "Idle";
      const Stand stand = !cause.empty() ? Stand::kCordoned : idle ? Stand::kIdle : Stand::kBusy;
      say(stand, idle ? "idle" : "busy", c->since, join(cause, jobs_until(view_)));
      if (!cause.empty()) to_.hand = view_.cordon_cause ? "operator" : "user";
      return;
    }
    say(Stand::kReady, "ready", view_.ready_since, {});
  }

 private:
  const PodCondition* find(std::string_view state) const {
    const auto found = std::ranges::find_if(view_.slurm_conditions, [&](const PodCondition& c) {
      return std::string_view(c.type).substr(names::kPodConditionPrefix.size()) == state;
    });
    return found == view_.slurm_conditions.end() ? nullptr : &*found;
  }
  void say(Stand stand, std::string state, WallTime since, std::string why) {
    to_.stand = stand;
    to_.state = std::move(state);
    if (since != WallTime{}) to_.since = since;
    to_.why = std::move(why);
  }
  static std::string lower(std::string_view state) {
    std::string text(state);
    std::ranges::transform(text, text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c; });
    return text;
  }
  static std::string without_mark(std::string_view reason) {
    if (reason.starts_with(names::kReasonPrefix)) reason.remove_prefix(names::kReasonPrefix.size());
    return std::string(reason);
  }

  void drained() {
    const bool busy = nodeset::conditions_busy(view_.slurm_conditions);
    const PodCondition& drain = *find("Drain");
    const bool ours = drain.message.starts_with(names::kReasonPrefix);
    std::string why = without_mark(drain.message);
    if (!ours) why = why.empty() ? "drained by somebody else" : "drained by somebody else: " + why;
    if (busy) why = join(why, jobs_until(view_));
    say(busy ? Stand::kDraining : Stand::kDrained, busy ? "draining" : "drained", drain.since, std::move(why));
    to_.hand = !ours ? "other" : view_.cordoned() && !view_.cordon_cause ? "user" : "operator";
  }

  const PodView& view_;
  PodStand& to_;
};

// By the words of the plugins of kube-scheduler that look at volumes.
bool is_about_volumes(std::string_view message) {
  std::string text(message);
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c; });
  return std::ranges::any_of(std::array<std::string_view, 3>{"volume", "storageclass", "free storage"},
                             [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

// An ephemeral volume has a claim named after pod and volume.
std::vector<std::string> claims_of(const json::Value& pod) {
  std::vector<std::string> out;
  const json::Array* volumes = json::array_at(pod, {"spec", "volumes"});
  if (volumes == nullptr) return out;
  for (const json::Value& volume : *volumes) {
    std::string name = text_at(volume, {"persistentVolumeClaim", "claimName"});
    if (json::find(volume, {"ephemeral"}) != nullptr) {
      name = fmt::format("{}-{}", text_at(pod, {"metadata", "name"}), text_at(volume, {"name"}));
    }
    if (!name.empty()) out.push_back(std::move(name));
  }
  return out;
}

// The StorageClass as a person would ask for it; the default one has no name here.
std::string class_of(const json::Value& claim) {
  const json::Value* name = json::find(claim, {"spec", "storageClassName"});
  if (name == nullptr || name->is_null()) return "the default StorageClass, if there is one";
  const std::string text = text_at(claim, {"spec", "storageClassName"});
  return text.empty() ? "no StorageClass" : "StorageClass " + text;
}

void judge_unbound(const json::Value& pod, PodStand& out) {
  const json::Value* scheduled = condition_of(pod, "PodScheduled");
  out.since = time_at(pod, {"metadata", "creationTimestamp"});
  out.stand = Stand::kUnscheduled;
  out.state = "unscheduled";
  if (scheduled == nullptr) {
    out.why = "the scheduler has not looked at it yet";
    return;
  }
  if (const auto since = time_at(*scheduled, {"lastTransitionTime"})) out.since = since;
  out.why = text_at(*scheduled, {"message"});
  if (text_at(*scheduled, {"reason"}) == "SchedulingGated") {
    out.stand = Stand::kGated;
    out.state = "gated";
  } else if (text_at(*scheduled, {"reason"}) == "Unschedulable") {
    out.state = "unschedulable";
    if (is_about_volumes(out.why)) {
      out.stand = Stand::kVolume;
      out.state = "lacks a volume";
      out.claims = claims_of(pod);
    }
  }
}

// Bound, and not ready.
void judge_starting(const json::Value& pod, PodStand& out) {
  const auto started = time_at(pod, {"status", "startTime"});
  const json::Value* ready = condition_of(pod, "Ready");
  if (const auto stuck = stuck_container(pod)) {
    out.stand = stuck->stand;
    out.state = stuck->reason;
    out.since = stuck->since ? stuck->since : started;
    out.why = join("container " + stuck->container, stuck->message);
    return;
  }
  const bool runs = json::string_at(pod, {"status", "phase"}) == "Running";
  out.stand = runs ? Stand::kUnready : Stand::kStarting;
  out.state = runs ? "not ready" : "starting";
  out.since = started;
  if (ready == nullptr) return;
  if (const auto since = time_at(*ready, {"lastTransitionTime"})) out.since = since;
  out.why = text_at(*ready, {"message"});
}

}  // namespace

PodStand judge_pod(const json::Value& pod, bool worker) {
  json::Interner interner;
  const auto decoded = nodeset::decode_worker_pod(json::dump(pod), interner);
  const PodView& view = decoded->view;
  PodStand out;
  out.pod = text_at(pod, {"metadata", "name"});
  out.node = text_at(pod, {"spec", "nodeName"});
  if (worker) out.slurm_node = text_at(pod, {"metadata", "labels", names::kPodHostname});
  const std::string phase = text_at(pod, {"status", "phase"});
  if (phase == "Succeeded" || phase == "Failed") {
    out.stand = phase == "Failed" ? Stand::kFailed : Stand::kSucceeded;
    out.state = phase == "Failed" ? "failed" : "ended";
    out.why = end_of(pod, out.since);
  } else if (const auto deleted = time_at(pod, {"metadata", "deletionTimestamp"})) {
    out.stand = Stand::kEnding;
    out.state = "ending";
    const std::int64_t grace = json::int_at(pod, {"metadata", "deletionGracePeriodSeconds"}).value_or(0);
    // Kubernetes writes when the grace period is over, not when it began.
    out.since = *deleted - std::chrono::seconds(grace);
    out.why = fmt::format("its containers have {} s to end", grace);
  } else if (out.node.empty()) {
    judge_unbound(pod, out);
  } else if (!kube::holds(condition_of(pod, "Ready"))) {
    judge_starting(pod, out);
  } else if (worker) {
    SlurmJudge(view, out).judge();
  } else {
    out.state = text_at(pod, {"metadata", "labels", names::kActive}) == "true" ? "ready, serves" : "ready";
    out.since = time_at(*condition_of(pod, "Ready"), {"lastTransitionTime"});
  }
  return out;
}

void name_claims(PodStand& pod, const std::vector<json::Value>& claims) {
  if (pod.stand != Stand::kVolume) return;
  for (const std::string& name : pod.claims) {
    const auto found = std::ranges::find_if(
        claims, [&](const json::Value& claim) { return text_at(claim, {"metadata", "name"}) == name; });
    if (found == claims.end()) {
      pod.why = join(pod.why, fmt::format("there is no PersistentVolumeClaim {}", name));
    } else if (const std::string phase = text_at(*found, {"status", "phase"}); phase != "Bound") {
      pod.why = join(pod.why, fmt::format("PersistentVolumeClaim {} is {}, of {}", name, phase.empty() ? "new" : phase,
                                          class_of(*found)));
    }
  }
}

std::string remedy_of(const PodStand& pod) {
  switch (pod.stand) {
    case Stand::kReady:
    case Stand::kIdle:
    case Stand::kBusy:
    case Stand::kStarting:
    case Stand::kSucceeded:
      return {};
    case Stand::kDraining:
    case Stand::kDrained:
    case Stand::kCordoned:
      if (pod.hand == "other") return "Whoever drained the Slurm node resumes it; the operator never undoes that.";
      if (pod.hand == "user")
        return fmt::format("Remove the annotation {} when the worker is to serve again.", names::kPodCordon);
      if (pod.stand == Stand::kDraining) {
        return fmt::format(
            "A drained worker goes on by itself when its jobs have ended (`squeue -w NODE`); annotation {} of the "
            "NodeSet bounds the wait.",
            names::kDrainLimit);
      }
      return {};
    case Stand::kMaintenance:
      return "`scontrol show reservation` says what the maintenance is.";
    case Stand::kDown:
      return "`scontrol show node NAME` and the log of container slurmd say why Slurm has given the node up.";
    case Stand::kUnregistered:
      return "The log of container slurmd says why it does not register; if all workers say so, look at the "
             "Controller.";
    case Stand::kGated:
      return "Whoever set the scheduling gates removes them.";
    case Stand::kUnscheduled:
      return "Make a Kubernetes node fit, or change the pod template: node selector, affinity, tolerations, resources.";
    case Stand::kVolume:
      return "`kubectl describe pvc NAME` says why the PersistentVolumeClaim has no volume the pod can use: its "
             "StorageClass has to exist with a provisioner that runs, or a PersistentVolume has to fit claim and node.";
    case Stand::kImage:
      return "Correct the image or the pull secret; `kubectl describe pod` has the registry's words.";
    case Stand::kConfig:
      return "`kubectl describe pod` says what the container lacks: a Secret, a ConfigMap, a key, a command.";
    case Stand::kCrashing:
      return "`kubectl logs POD -c CONTAINER --previous` has its last words.";
    case Stand::kUnready:
      return "`kubectl describe pod` says which probe fails.";
    case Stand::kEnding:
      return "If it never ends its kubelet may be dead: look at its node.";
    case Stand::kFailed:
      return "`kubectl logs POD` has its last words; the operator makes another one.";
  }
  return {};
}

}  // namespace bascule::op::explain

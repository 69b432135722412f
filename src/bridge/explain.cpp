#include "bridge/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_table.hpp"
#include "bridge/explain_remedy.hpp"
#include "bridge/names.hpp"
#include "json/text.hpp"
#include "kube/condition.hpp"

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxEvents = 10;
constexpr std::size_t kMostSearched = 1'000;

using json::text_at;

const json::Value* condition_of(const json::Value& pod, std::string_view type) {
  return kube::find_condition(json::array_at(pod, {"status", "conditions"}), type);
}

struct Stand {
  std::string job, node, phase, reason, message;
  bool deleting = false, gated = false, ours = false;
  std::optional<ClaimStand> claim = std::nullopt;
  std::string job_unknown = {};
  bool others_hold = false;  // its job stands for other pods too that are not over
};

bool claim_is(const Stand& s, ClaimStand::State state) {
  return s.claim && s.claim->state == state;
}

// Of a pod on its node that does not run yet, or runs although its claim is going.
void judge_claim(const Stand& s, Explanation& out) {
  const bool running = s.phase == "Running";
  if (claim_is(s, ClaimStand::State::kAbsent) && !running) {
    out.verdict += " Its ResourceClaim " + s.claim->key.str() + " does not exist any more: kubelet cannot start it.";
    out.next =
        "Delete the pod: whoever made it makes another, with a claim of its own. Claims must not be deleted by hand.";
  } else if (claim_is(s, ClaimStand::State::kGoing)) {
    out.verdict += " Its ResourceClaim " + s.claim->key.str() + " was deleted at " + s.claim->since +
                   " and stays until the pod has ended.";
    if (!running) out.next = "kubelet may not start it any more: delete the pod, whoever made it makes another.";
  } else if (claim_is(s, ClaimStand::State::kAllocated) && !running) {
    out.next =
        "kubelet and the driver prepare its devices: `kubectl describe pod` tells how far they are, then the "
        "log of the driver on that node.";
  }
}

std::string what_to_do(const Stand& s) {
  if (const std::string remedy = remedy_of(s.reason, s.message); !remedy.empty()) return remedy;
  const std::string job = queued_job(s.message);
  if (job.empty()) return "A Slurm job is submitted when that is over.";
  return fmt::format("It is bound as soon as Slurm job {0} runs. `scontrol show job {0}` tells what Slurm thinks.",
                     job);
}

// Of a pod on its node.
void judge_placed(const Stand& s, const std::string& job, Explanation& out) {
  out.verdict = "The pod is on node " + s.node;
  if (job.empty()) {
    out.verdict += " without a Slurm job.";
    out.next =
        "Somebody bound it past the bridge, unless its schedulerName is another scheduler's: Slurm does not know of it "
        "and may give the node to others, so delete the pod.";
  } else if (!s.job_unknown.empty()) {
    out.verdict += ", but " + s.job_unknown + ".";
    out.next = "Slurm may give the node to others: drain it, or delete the pod.";
    if (s.job_unknown.find("was started after the pod was made") != std::string::npos) {
      out.next += " This job may as well have ended while nobody looked: delete the pod then.";
    }
  } else {
    out.verdict += ", held by " + job + ".";
    out.next = s.phase == "Running" ? "It runs; it is deleted if its Slurm job ends first."
                                    : "kubelet is starting it: `kubectl describe pod` tells how far it is.";
  }
  judge_claim(s, out);
}

std::string after_the_end(const Stand& s, const std::string& job) {
  if (job.empty()) return "Nothing more will happen.";
  if (s.others_hold) return "Its node is free when the last pod of " + job + " is over.";
  return job + " is cancelled and its nodes are free, or will be in a moment.";
}

void judge(const Stand& s, Explanation& out) {
  const std::string job = s.job.empty() ? "" : "Slurm job " + s.job;
  if (s.phase == "Succeeded" || s.phase == "Failed") {
    out.verdict = s.phase == "Succeeded" ? "The pod ran and ended well." : "The pod ran and failed.";
    out.next = after_the_end(s, job);
  } else if (s.deleting) {
    out.verdict = s.node.empty() ? "The pod is being deleted before it got a node."
                                 : "The pod is being deleted; it still holds node " + s.node + ".";
    out.next = job.empty() ? "It goes at once." : job + " is cancelled when the pod has really ended.";
  } else if (!s.node.empty()) {
    judge_placed(s, job, out);
  } else if (s.gated) {
    out.verdict = "The pod has scheduling gates; no Slurm job is submitted before they are gone.";
    out.next = "Whoever set the gates removes them.";
  } else if (!s.message.empty()) {
    out.verdict = "The pod waits: " + s.message + ".";
    out.next = what_to_do(s);
  } else {
    out.verdict = "The scheduler has not said anything about the pod yet.";
    out.next = "If this lasts, look at the log of the scheduler.";
  }
  if (!s.ours)
    out.next = "Its schedulerName is not a bridge's as far as the pod shows: it may belong to another scheduler.";
}

// When the scheduler first said what it says now: its events are written once a sentence.
std::string said_since(const json::Value& events, const Stand& s) {
  std::string first;
  for (const kube::PastEvent& event : kube::newest_events(events, kMostSearched)) {
    if (event.reason != "FailedScheduling") continue;
    if (event.note != s.message) {
      first.clear();
    } else if (first.empty()) {
      first = event.time;
    }
  }
  return first;
}

// The message of its condition SlurmJobKnown while that is false.
std::string job_unknown_of(const json::Value& pod) {
  const json::Value* condition = condition_of(pod, names::kSlurmJobKnown);
  const bool unknown = condition != nullptr && json::string_at(*condition, {"status"}) == "False";
  return unknown ? text_at(*condition, {"message"}) : std::string();
}

// The job is cancelled when the last of its pods is over.
bool others_hold(const GroupExplanation& group, const std::string& pod, const std::string& job) {
  return std::ranges::any_of(group.members, [&](const GroupExplanation::Member& one) {
    return one.pod != pod && one.job == job && one.stands != "done" && one.stands != "failed";
  });
}

}  // namespace

Explanation explain_pod(const json::Value& pod, PodSurroundings around) {
  Explanation out;
  const std::string jobid(names::kSlurmJobId);
  Stand s{text_at(pod, {"metadata", "labels", jobid}),
          text_at(pod, {"spec", "nodeName"}),
          text_at(pod, {"status", "phase"}),
          {},
          {}};
  const std::string scheduler = text_at(pod, {"spec", "schedulerName"});
  s.deleting = json::find(pod, {"metadata", "deletionTimestamp"}) != nullptr;
  const json::Array* gates = json::array_at(pod, {"spec", "schedulingGates"});
  s.gated = gates != nullptr && !gates->empty();
  s.ours = scheduler != "default-scheduler";
  s.claim = around.claim;
  s.job_unknown = job_unknown_of(pod);
  s.others_hold = around.group && others_hold(*around.group, text_at(pod, {"metadata", "name"}), s.job);
  std::string since;
  if (const json::Value* condition = condition_of(pod, "PodScheduled")) {
    s.reason = text_at(*condition, {"reason"});
    s.message = text_at(*condition, {"message"});
    if (json::string_at(*condition, {"status"}) == "False") since = text_at(*condition, {"lastTransitionTime"});
  }
  out.name = text_at(pod, {"metadata", "namespace"}) + "/" + text_at(pod, {"metadata", "name"});
  judge(s, out);
  const auto fact = [&out](std::string name, std::string value) {
    if (!value.empty()) out.facts.emplace_back(std::move(name), std::move(value));
  };
  fact("scheduler", scheduler);
  fact("phase", s.phase);
  fact("Slurm job", s.job);
  fact("node", s.node);
  const bool waits = s.node.empty() && !s.message.empty();
  fact("waits for", s.reason);
  if (waits) fact("waits since", since);
  if (waits) fact("says so since", said_since(around.events.list, s));
  if (s.claim) fact("claim", print(*s.claim));
  fact("annotations", around.root.empty() ? "" : "of " + around.root);
  fact("doubtful", around.doubts);
  fact("events", around.events.problem);
  out.events = kube::newest_events(around.events.list, kMaxEvents);
  out.group = std::move(around.group);
  return out;
}

std::string to_text(const Explanation& e, bool colours) {
  const std::string_view bold = colours ? colour::kBold : "";
  const std::string_view plain = colours ? colour::kPlain : "";
  std::string text =
      fmt::format("{}{} {}{}\n{}\n{}\n\n", bold, e.kind, e.name, plain, plain_text(e.verdict), plain_text(e.next));
  for (const auto& [name, value] : e.facts) text += fmt::format("  {:<13} {}\n", name, plain_text(value));
  if (e.group) text += "\n" + to_text(*e.group, colours);
  if (e.events.empty()) return text;
  TextTable table({"TIME", "EVENT", "NOTE"});
  for (const kube::PastEvent& event : e.events) table.add({event.time, event.reason, event.note});
  return text + "\n" + table.str(colours, "  ");
}

json::Value to_json(const Explanation& e) {
  json::Object facts;
  for (const auto& [name, value] : e.facts) facts[name] = value;
  json::Array events;
  for (const kube::PastEvent& event : e.events) {
    events.push_back(json::Object{{"time", event.time}, {"reason", event.reason}, {"note", event.note}});
  }
  json::Object out{{e.kind, e.name},
                   {"verdict", e.verdict},
                   {"next", e.next},
                   {"facts", std::move(facts)},
                   {"events", std::move(events)}};
  if (e.group) out["group"] = to_json(*e.group);
  return out;
}

}  // namespace bascule::bridge

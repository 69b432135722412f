#include "bridge/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_table.hpp"
#include "bridge/names.hpp"
#include "json/text.hpp"
#include "kube/condition.hpp"

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxEvents = 10;
constexpr std::size_t kMostSearched = 1'000;

using json::text_at;

const json::Value* scheduled_condition(const json::Value& pod) {
  return kube::find_condition(json::array_at(pod, {"status", "conditions"}), "PodScheduled");
}

struct Stand {
  std::string job, node, phase, reason, message;
  bool deleting = false, gated = false, ours = false;
  std::optional<ClaimStand> claim = std::nullopt;
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

std::string what_to_do(const Stand& s, const std::string& job) {
  if (const std::string remedy = remedy_of(s.reason, s.message); !remedy.empty()) return remedy;
  if (!job.empty()) {
    return "It is bound as soon as " + job + " runs. `scontrol show job " + s.job + "` tells what Slurm thinks.";
  }
  if (s.reason == "Unschedulable") {
    return "Make a node fit, or change the pod: its node selector, affinity, tolerations or size.";
  }
  return "A Slurm job is submitted when that is over.";
}

void judge(const Stand& s, Explanation& out) {
  const std::string job = s.job.empty() ? "" : "Slurm job " + s.job;
  if (s.phase == "Succeeded" || s.phase == "Failed") {
    out.verdict = s.phase == "Succeeded" ? "The pod ran and ended well." : "The pod ran and failed.";
    out.next = job.empty() ? "Nothing more will happen."
                           : job + " is cancelled and its nodes are free, or will be in a moment.";
  } else if (s.deleting) {
    out.verdict = s.node.empty() ? "The pod is being deleted before it got a node."
                                 : "The pod is being deleted; it still holds node " + s.node + ".";
    out.next = job.empty() ? "It goes at once." : job + " is cancelled when the pod has really ended.";
  } else if (!s.node.empty()) {
    out.verdict = "The pod is on node " + s.node + (job.empty() ? " without a Slurm job." : ", held by " + job + ".");
    out.next = s.phase == "Running" ? "It runs; it is deleted if its Slurm job ends first."
                                    : "kubelet is starting it: `kubectl describe pod` tells how far it is.";
    judge_claim(s, out);
  } else if (s.gated) {
    out.verdict = "The pod has scheduling gates; no Slurm job is submitted before they are gone.";
    out.next = "Whoever set the gates removes them.";
  } else if (!s.message.empty()) {
    out.verdict = "The pod waits: " + s.message + ".";
    out.next = what_to_do(s, job);
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

}  // namespace

Explanation explain_pod(const json::Value& pod, const json::Value& events, const std::optional<ClaimStand>& claim) {
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
  s.claim = claim;
  std::string since;
  if (const json::Value* condition = scheduled_condition(pod)) {
    s.reason = text_at(*condition, {"reason"});
    s.message = text_at(*condition, {"message"});
    if (json::string_at(*condition, {"status"}) == "False") since = text_at(*condition, {"lastTransitionTime"});
  }
  out.pod = text_at(pod, {"metadata", "namespace"}) + "/" + text_at(pod, {"metadata", "name"});
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
  if (waits) fact("says so since", said_since(events, s));
  if (claim) fact("claim", print(*claim));
  out.events = kube::newest_events(events, kMaxEvents);
  return out;
}

std::string to_text(const Explanation& e, bool colours) {
  const std::string_view bold = colours ? colour::kBold : "";
  const std::string_view plain = colours ? colour::kPlain : "";
  std::string text =
      fmt::format("{}pod {}{}\n{}\n{}\n\n", bold, e.pod, plain, plain_text(e.verdict), plain_text(e.next));
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
  json::Object out{{"pod", e.pod},
                   {"verdict", e.verdict},
                   {"next", e.next},
                   {"facts", std::move(facts)},
                   {"events", std::move(events)}};
  if (e.group) out["group"] = to_json(*e.group);
  return out;
}

}  // namespace bascule::bridge

#include "bridge/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text_table.hpp"
#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxEvents = 10;

std::string text_at(const json::Value& value, json::Path path) {
  return std::string(json::string_at(value, path));
}

const json::Value* scheduled_condition(const json::Value& pod) {
  const json::Array* conditions = json::array_at(pod, {"status", "conditions"});
  if (conditions == nullptr) return nullptr;
  const auto it = std::ranges::find_if(
      *conditions, [](const json::Value& c) { return json::string_at(c, {"type"}) == "PodScheduled"; });
  return it == conditions->end() ? nullptr : &*it;
}

struct Stand {
  std::string job, node, phase, reason, message;
  bool deleting = false, gated = false, ours = false;
};

std::string what_to_do(const Stand& s, const std::string& job) {
  if (const std::string remedy = remedy_of(s.reason); !remedy.empty()) return remedy;
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

}  // namespace

Explanation explain_pod(const json::Value& pod, const json::Value& events) {
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
  if (const json::Value* condition = scheduled_condition(pod)) {
    s.reason = text_at(*condition, {"reason"});
    s.message = text_at(*condition, {"message"});
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
  fact("waits for", s.reason);
  out.events = kube::newest_events(events, kMaxEvents);
  return out;
}

std::string to_text(const Explanation& e, bool colours) {
  const std::string_view bold = colours ? colour::kBold : "";
  const std::string_view plain = colours ? colour::kPlain : "";
  std::string text =
      fmt::format("{}pod {}{}\n{}\n{}\n\n", bold, e.pod, plain, plain_text(e.verdict), plain_text(e.next));
  for (const auto& [name, value] : e.facts) text += fmt::format("  {:<10} {}\n", name, plain_text(value));
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

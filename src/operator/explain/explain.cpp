#include "operator/explain/explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "base/text_table.hpp"
#include "base/time.hpp"
#include "base/utf8.hpp"
#include "kube/condition.hpp"
#include "operator/api/names.hpp"
#include "operator/api/resources.hpp"
#include "operator/explain/fields.hpp"

namespace bascule::op::explain {

namespace {

constexpr std::size_t kMaxEvents = 10;
constexpr std::string_view kNoWords = "scontrol reconfigure failed";  // which said nothing

// Of a condition's message. A NodeSet's begins with a count.
std::vector<std::string> sentences(std::string_view message) {
  constexpr std::string_view kCount = " pods are available: ";
  std::vector<std::string> out;
  if (const std::size_t count = message.find(kCount); count < message.find(';')) {
    out.emplace_back(message.substr(0, count + kCount.size() - 2));
    message.remove_prefix(count + kCount.size());
  }
  while (!message.empty()) {
    const std::size_t end = std::min(message.find("; "), message.size());
    if (end > 0) out.emplace_back(message.substr(0, end));
    message.remove_prefix(std::min(end + 2, message.size()));
  }
  return out;
}

// Written by the operator before it has seen the newest change.
bool is_old(const json::Value& object, const json::Value& condition) {
  return json::int_at(condition, {"observedGeneration"}).value_or(0) <
         json::int_at(object, {"metadata", "generation"}).value_or(0);
}

void judge(const kube::Resource& resource, const json::Value& object, Explanation& out) {
  const json::Value* ready = condition_of(object, "Ready");
  const json::Value* degraded = condition_of(object, "Degraded");
  if (ready != nullptr) {
    out.since = time_at(*ready, {"lastTransitionTime"});
    if (!kube::holds(ready)) out.waits = sentences(json::string_at(*ready, {"message"}));
  }
  if (const auto deleted = time_at(object, {"metadata", "deletionTimestamp"})) {
    out.verdict = fmt::format("The {} is being deleted.", resource.kind);
    out.since = deleted;
    if (resource == kNodeSets) {
      out.next.emplace_back("Its workers drain; each goes when its jobs have ended, and then the NodeSet.");
      out.next.emplace_back(fmt::format(
          "If nothing moves: does an operator run, for this namespace too? Without one it stays until its finalizers "
          "are taken away, and then goes at once with its jobs: kubectl -n {} patch nodeset {} --type=merge "
          "-p '{{\"metadata\":{{\"finalizers\":null}}}}'",
          text_at(object, {"metadata", "namespace"}), text_at(object, {"metadata", "name"})));
    }
    return;
  }
  if (ready == nullptr) {
    out.verdict = fmt::format("The operator has not said anything about the {} yet.", resource.kind);
    out.since = time_at(object, {"metadata", "creationTimestamp"});
    out.next.emplace_back(
        "If this lasts: does an operator run, for this namespace too? See the log of Deployment slurm-operator.");
    return;
  }
  if (is_old(object, *ready)) {
    out.verdict = fmt::format("The operator has not looked at the newest change of the {} yet.", resource.kind);
    out.next.emplace_back("If this lasts, see the log of Deployment slurm-operator.");
  } else if (text_at(*ready, {"reason"}) == "BadSpec") {
    out.verdict = fmt::format("The {} cannot be read, and somebody has to mend it.", resource.kind);
    out.next.emplace_back("Correct what the sentence names; the operator follows by itself.");
  } else if (kube::holds(degraded)) {
    out.verdict = fmt::format("The {} is not as it should be, and somebody has to mend something.", resource.kind);
    out.since = time_at(*degraded, {"lastTransitionTime"});
    out.next.emplace_back("Correct what the sentences name; the operator follows by itself.");
  } else if (kube::holds(ready)) {
    out.verdict = fmt::format("The {} is as it should be.", resource.kind);
  } else {
    out.verdict = fmt::format("The operator waits for the {} to be as it should.", resource.kind);
  }
}

// Whatever the status says: without a Controller nothing is done to a NodeSet.
void judge_alone(const Found& found, Explanation& out) {
  const std::string controller = text_at(found.object, {"spec", "controllerRef", "name"});
  const auto is_it = [&](const Neighbour& one) {
    return one.state == "missing" && one.object == "Controller " + controller;
  };
  if (std::ranges::none_of(out.neighbours, is_it)) return;
  if (json::find(found.object, {"metadata", "deletionTimestamp"}) != nullptr) return;
  if (kube::holds(condition_of(found.object, "Ready"))) out.since.reset();
  out.verdict = fmt::format(
      "Controller {} of the NodeSet does not exist: its pods are left as they are, none is made and none removed.",
      controller);
  out.next = {
      "If the Slurm cluster is not to come back, delete the NodeSet; its pods then end at once, with what runs "
      "on them."};
}

constexpr std::string_view kOfAnotherKey =
    "it has another key of auth/slurm than it was made for, and until it is made anew or the old key is back slurmctld "
    "takes no configuration, since it would take the key with it";

// What slurmctld itself finds while it reconfigures reaches scontrol as "Unspecified error".
bool names_a_cause(std::string_view refusal) {
  return refusal != kNoWords && refusal.find("Unspecified error") == std::string_view::npos;
}

// Before the operator says it, which is patient, and where slurmctld does not tell what it runs.
void judge_configuration(const Found& found, Explanation& out) {
  for (const auto& [pod, log] : found.reconfigure_logs) {
    const bool key = keeps_for_key(log);
    const std::optional<std::string> refusal = key ? std::string(kOfAnotherKey) : refusal_in(log);
    if (!refusal) continue;
    if (kube::holds(condition_of(found.object, "Ready"))) {
      out.verdict = "slurmctld goes on with an older configuration, it did not take the newest one.";
      out.since.reset();
    }
    out.waits.push_back(fmt::format("pod {}: {}", pod, *refusal));
    if (key) return;
    out.next = {fmt::format(
        "Correct what {} names, in spec.extraConf of the Controller or in its ConfigMaps; it is tried again "
        "by itself. Leave slurmctld's pod alone until then: it might not start again.",
        names_a_cause(*refusal) ? "scontrol"
                                : fmt::format("slurmctld's log (`kubectl -n {} logs {} -c logfile`)",
                                              json::string_at(found.object, {"metadata", "namespace"}), pod))};
    return;
  }
}

// `going`: the object is being deleted, and lacks nothing.
void say_remedies(const Explanation& e, bool going, std::vector<std::string>& next) {
  for (const PodStand& pod : e.pods) {
    std::string remedy = remedy_of(pod);
    if (!remedy.empty() && std::ranges::find(next, remedy) == next.end()) next.push_back(std::move(remedy));
  }
  for (const Neighbour& one : e.neighbours) {
    if (one.state == "ready" || (going && one.state == "missing")) continue;
    std::string name = one.object;
    std::ranges::replace(name, ' ', '/');
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    next.push_back(one.state == "missing" ? fmt::format("Create {}.", one.object)
                                          : fmt::format("`bascule explain {}` says more.", name));
  }
}

Neighbour neighbour_of(const std::string& name, const json::Value& object) {
  Neighbour out{name, "waits", std::nullopt, {}};
  const json::Value* ready = condition_of(object, "Ready");
  if (object.is_null()) {
    out.state = "missing";
    return out;
  }
  if (ready != nullptr) {
    out.since = time_at(*ready, {"lastTransitionTime"});
    if (kube::holds(ready)) out.state = "ready";
    if (!kube::holds(ready)) out.says = text_at(*ready, {"message"});
  } else {
    out.says = "the operator has not said anything about it yet";
  }
  if (kube::holds(condition_of(object, "Degraded"))) out.state = "degraded";
  if (const auto deleted = time_at(object, {"metadata", "deletionTimestamp"})) {
    out.state = "going";
    out.since = deleted;
  }
  return out;
}

void add_facts(const kube::Resource& resource, const json::Value& object, Explanation& out) {
  const auto fact = [&out](std::string name, std::string value) {
    if (!value.empty()) out.facts.emplace_back(std::move(name), std::move(value));
  };
  const auto number = [&object](json::Path path) { return json::int_at(object, path).value_or(0); };
  fact("controller", text_at(object, {"spec", "controllerRef", "name"}));
  if (json::bool_at(object, {"spec", "external"})) fact("external", "yes: the daemon runs elsewhere");
  if (resource == kNodeSets) {
    fact("pods", fmt::format("{} wanted, {} there, {} available, {} of the newest revision",
                             number({"status", "desired"}), number({"status", "replicas"}),
                             number({"status", "availableReplicas"}), number({"status", "updatedReplicas"})));
    fact("in Slurm", fmt::format("{} idle, {} allocated, {} down, {} drained", number({"status", "slurmIdle"}),
                                 number({"status", "slurmAllocated"}), number({"status", "slurmDown"}),
                                 number({"status", "slurmDrain"})));
    fact("update", text_at(object, {"spec", "updateStrategy", "type"}));
    fact("drain limit", text_at(object, {"metadata", "annotations", names::kDrainLimit}));
    if (const json::Value* made = condition_of(object, "ReservationCreated")) {
      fact("reservation", kube::holds(made) ? "made: " + text_at(*made, {"message"}) : text_at(*made, {"message"}));
    }
  }
  if (resource == kTokens) {
    fact("user", text_at(object, {"spec", "username"}));
    fact("issued", text_at(object, {"status", "issuedAt"}));
  }
}

std::string since_text(const std::optional<WallTime>& since, WallTime now) {
  if (!since) return {};
  const auto past = std::chrono::floor<std::chrono::seconds>(std::max(now - *since, WallTime::duration::zero()));
  return fmt::format("{} ({})", print_rfc3339(*since), print_duration(past));
}

std::string since_json(const std::optional<WallTime>& since) {
  return since ? print_rfc3339(*since) : std::string();
}

std::string_view colour_of(const PodStand& pod) {
  if (pod.serves()) return colour::kGreen;
  return pod.stand == Stand::kDraining || pod.stand == Stand::kStarting || pod.stand == Stand::kEnding ? colour::kYellow
                                                                                                       : colour::kRed;
}

}  // namespace

std::optional<std::string> refusal_in(std::string_view log) {
  constexpr std::size_t kMaxSentence = 400;
  std::optional<std::string> refusal;
  std::string said;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(std::min(end + 1, log.size()));
    if (line.ends_with(" has changed, reconfiguring")) {
      said.clear();
    } else if (line.ends_with(" took the new configuration")) {
      refusal.reset();
    } else if (line.find(" the new configuration, next try in ") != std::string_view::npos) {
      refusal = said.empty() ? std::string(kNoWords) : std::string(cut_utf8(said, kMaxSentence));
    } else if (!line.empty()) {
      said += (said.empty() ? "" : ", ") + std::string(line);
    }
  }
  return refusal;
}

bool keeps_for_key(std::string_view log) {
  const std::size_t kept = log.rfind(" keeps its configuration, ");
  const std::size_t tried = log.rfind(" has changed, reconfiguring\n");
  return kept != std::string_view::npos && (tried == std::string_view::npos || tried < kept);
}

Explanation explain(const kube::Resource& resource, const Found& found) {
  Explanation out;
  out.object = fmt::format("{} {}/{}", resource.kind, json::string_at(found.object, {"metadata", "namespace"}),
                           json::string_at(found.object, {"metadata", "name"}));
  out.workers = resource == kNodeSets;
  judge(resource, found.object, out);
  add_facts(resource, found.object, out);
  for (const json::Value& pod : found.pods) {
    out.pods.push_back(judge_pod(pod, out.workers));
    if (found.claims) name_claims(out.pods.back(), *found.claims);
  }
  // gpu-2 before gpu-10.
  std::ranges::sort(out.pods, {}, [](const PodStand& pod) { return std::pair(pod.pod.size(), pod.pod); });
  for (const auto& [name, object] : found.neighbours) out.neighbours.push_back(neighbour_of(name, object));
  if (resource == kNodeSets) judge_alone(found, out);
  judge_configuration(found, out);
  say_remedies(out, json::find(found.object, {"metadata", "deletionTimestamp"}) != nullptr, out.next);
  out.events = kube::newest_events(found.events, kMaxEvents);
  return out;
}

std::string to_text(const Explanation& e, WallTime now, bool colours) {
  std::string text = fmt::format("{}{}{}\n{}\n", colours ? colour::kBold : "", plain_text(e.object),
                                 colours ? colour::kPlain : "", plain_text(e.verdict));
  if (e.since) text += fmt::format("Since {}.\n", since_text(e.since, now));
  for (const std::string& wait : e.waits) text += fmt::format("  - {}\n", plain_text(wait));
  for (const std::string& next : e.next) text += plain_text(next) + "\n";
  if (!e.facts.empty()) text += "\n";
  for (const auto& [name, value] : e.facts) text += fmt::format("  {:<11} {}\n", name, plain_text(value));
  if (!e.pods.empty()) {
    TextTable table(e.workers ? std::vector<std::string>{"POD", "NODE", "IN SLURM", "STATE", "SINCE", "WHY"}
                              : std::vector<std::string>{"POD", "NODE", "STATE", "SINCE", "WHY"});
    for (const PodStand& pod : e.pods) {
      std::vector<TextTable::Cell> row{pod.pod, pod.node};
      if (e.workers) row.emplace_back(pod.slurm_node);
      row.emplace_back(pod.state, colour_of(pod));
      row.emplace_back(since_text(pod.since, now));
      row.emplace_back(pod.why);
      table.add(std::move(row));
    }
    text += "\n" + table.str(colours, "  ");
  }
  if (!e.neighbours.empty()) {
    TextTable table({"BESIDE IT", "STATE", "SINCE", "SAYS"});
    for (const Neighbour& one : e.neighbours) {
      table.add({one.object,
                 {one.state, one.state == "ready" ? colour::kGreen : colour::kYellow},
                 since_text(one.since, now),
                 one.says});
    }
    text += "\n" + table.str(colours, "  ");
  }
  if (!e.events.empty()) {
    TextTable table({"TIME", "EVENT", "NOTE"});
    for (const kube::PastEvent& event : e.events) table.add({event.time, event.reason, event.note});
    text += "\n" + table.str(colours, "  ");
  }
  return text;
}

json::Value to_json(const Explanation& e) {
  const auto list = [](const std::vector<std::string>& texts) {
    json::Array out;
    for (const std::string& text : texts) out.emplace_back(text);
    return out;
  };
  json::Object facts;
  for (const auto& [name, value] : e.facts) facts[name] = value;
  json::Array pods, neighbours, events;
  for (const PodStand& pod : e.pods) {
    json::Object one{{"pod", pod.pod},         {"node", pod.node},
                     {"state", pod.state},     {"since", since_json(pod.since)},
                     {"serves", pod.serves()}, {"why", pod.why}};
    if (e.workers) one["slurmNode"] = pod.slurm_node;
    pods.push_back(std::move(one));
  }
  for (const Neighbour& one : e.neighbours) {
    neighbours.push_back(json::Object{
        {"object", one.object}, {"state", one.state}, {"since", since_json(one.since)}, {"says", one.says}});
  }
  for (const kube::PastEvent& event : e.events) {
    events.push_back(json::Object{{"time", event.time}, {"reason", event.reason}, {"note", event.note}});
  }
  return json::Object{{"object", e.object},           {"verdict", e.verdict},
                      {"since", since_json(e.since)}, {"waits", list(e.waits)},
                      {"next", list(e.next)},         {"facts", std::move(facts)},
                      {"pods", std::move(pods)},      {"neighbours", std::move(neighbours)},
                      {"events", std::move(events)}};
}

}  // namespace bascule::op::explain

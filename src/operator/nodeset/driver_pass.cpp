#include "operator/nodeset/driver_pass.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "base/time.hpp"
#include "base/utf8.hpp"
#include "json/patch.hpp"
#include "operator/api/names.hpp"
#include "operator/api/reasons.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/status.hpp"

namespace bascule::op::nodeset {

namespace {

using namespace std::chrono_literals;
using kube::EventType;

constexpr std::size_t kAtOnce = 16;
// So many creations or deletions of pods in one pass have events of their own.
constexpr std::size_t kTold = 10;
// A message that keeps changing is written so often.
constexpr Duration kMessageEvery = 30s;
// Slurm may be unknown for so long before it is said.
constexpr Duration kUnknownPatience = 30s;
constexpr std::size_t kMostMessage = 2000;  // bytes
constexpr std::size_t kMostSentence = 1000;
constexpr std::uint32_t kKeepsFailing = 3;  // passes
// So long conditions of pods are begun in one pass.
constexpr Duration kDescribes = 5s;
constexpr std::string_view kReady = "Ready";

// By the place of its kind in `What`: a label of the metric.
constexpr std::array<std::string_view, 17> kKinds = {
    "adopt_pod",         "release_pod",        "create_claim",    "patch_claim_owners", "create_pod",
    "patch_pod",         "set_conditions",     "delete_pod",      "write_node",         "delete_node",
    "write_reservation", "delete_reservation", "create_revision", "patch_revision",     "delete_revision",
    "write_status",      "set_finalizer"};
static_assert(std::variant_size_v<What> == kKinds.size());

std::string_view word(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return "done";
    case Outcome::kStale:
      return "stale";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kMaybe:
      return "unknown";
  }
  return "";
}

template <class T>
const T* as(const Action& action) {
  return std::get_if<T>(&action.what);
}
bool is_first(const Action& action) {
  const auto* finalizer = as<SetFinalizer>(action);
  return as<CreateRevision>(action) || as<PatchRevision>(action) || (finalizer && finalizer->present);
}
bool is_last(const Action& action) {
  const auto* finalizer = as<SetFinalizer>(action);
  return as<DeleteRevision>(action) || as<WriteReservation>(action) || as<DeleteReservation>(action) ||
         (finalizer && !finalizer->present);
}
bool only_describes(const Action& action) {
  const auto* write = as<WriteSlurmNode>(action);
  return write != nullptr && !write->state;
}
bool is_claim(const Action& action) {
  return as<CreateClaim>(action) || as<PatchClaimOwners>(action);
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string text;
  std::size_t told = 0;
  for (const std::string& whole : sentences) {
    std::string sentence = whole;
    if (sentence.size() > kMostSentence) sentence = std::string(cut_utf8(whole, kMostSentence)) + "...";
    if (text.size() + sentence.size() > kMostMessage) break;
    text += (text.empty() ? "" : "; ") + sentence;
    ++told;
  }
  if (told < sentences.size()) text += fmt::format("; and {} more", sentences.size() - told);
  return text;
}

}  // namespace

DriverPass::DriverPass(const NodeSetDriver::Parts& parts, const NodeSetDriver::Options& options, Reading& now,
                       Entry& entry)
    : parts_(parts),
      options_(options),
      loop_(parts.kube.loop()),
      now_(now),
      entry_(entry),
      performer_({.kube = parts.kube,
                  .cluster = now.cluster,
                  .state = now.state,
                  .set = now.set,
                  .meta = now.object->meta,
                  .input = now.input ? &*now.input : nullptr,
                  .may_act = [this] { return may_act(); },
                  .pod = [this](const std::string& name) -> const kube::ObjectMeta* {
                    const auto it = now_.pods.find(name);
                    return it == now_.pods.end() ? nullptr : &it->second->meta;
                  },
                  .work = [this](const std::string& node) -> const Work* {
                    if (!now_.works) return nullptr;
                    const auto it = now_.works->nodes.find(node);
                    return it == now_.works->nodes.end() ? nullptr : &it->second;
                  }}),
      at_once_(loop_, kAtOnce) {
  for (const PodView& pod : now_.state.pods) pods_by_slurm_name_.try_emplace(slurm_name_of(pod), pod.name);
  std::erase_if(entry_.sent, [this](const auto& sent) {
    const auto pod = now_.pods.find(sent.first);
    const std::string& version =
        pod == now_.pods.end() ? now_.object->meta.resource_version : pod->second->meta.resource_version;
    return sent.second.version != version;
  });
}

// Finalizers and revisions first: pods carry a revision's hash. Then claims, then each pod's own actions in their order
// and pods beside each other, then new pods, then what is removed for good; at last what only people read. One that is
// refused holds up those that need it, and no others.
Task<> DriverPass::perform(const Plan& plan, std::stop_token stop) {
  Actions first, claims, pods, creates, records, last, conditions;
  for (const Action& action : plan.actions) {
    if (as<WriteStatus>(action)) continue;
    if (as<CreatePod>(action) || as<DeletePod>(action)) ++pods_made_or_deleted_;
    if (as<CreateClaim>(action) || as<PatchClaimOwners>(action)) ++claims_changed_;
    Actions& to = is_first(action)               ? first
                  : is_last(action)              ? last
                  : is_claim(action)             ? claims
                  : as<CreatePod>(action)        ? creates
                  : as<DeleteSlurmNode>(action)  ? records
                  : as<SetPodConditions>(action) ? conditions
                                                 : pods;
    to.push_back(&action);
  }
  co_await act_in_order(std::move(first), stop);
  if (again_) co_return;
  if (failed_) {
    creates.clear();
    last.clear();
    std::erase_if(pods, [](const Action* action) { return action->for_update; });
  }
  co_await act_in_groups(std::move(claims), stop);
  co_await act_in_groups(std::move(pods), stop);
  std::erase_if(creates, [this](const Action* action) { return lacks_claim(*as<CreatePod>(*action)); });
  co_await create_pods(std::move(creates), stop);
  co_await act_in_groups(std::move(records), stop);
  co_await act_in_order(std::move(last), stop);
  co_await describe_pods(std::move(conditions), stop);
}

// --- the order -------------------------------------------------------------------------------------------------------

// One that is not done ends the rest, which may depend on it; but nothing depends on what only describes. A topology
// that slurmctld refuses must keep no busy pod from being protected, and none from being drained.
Task<> DriverPass::act_in_order(Actions actions, std::stop_token stop) {
  for (const Action* action : actions) {
    const bool done = co_await act(*action, stop);
    if (!done && !only_describes(*action)) co_return;
  }
}

Task<> DriverPass::act_in_order_when_free(Actions actions, std::stop_token stop) {
  const Semaphore::Permit permit = co_await at_once_.acquire(stop);
  if (!permit) co_return;
  co_await act_in_order(std::move(actions), stop);
}

Task<> DriverPass::act_in_groups(Actions actions, std::stop_token stop) {
  std::map<std::string, Actions> groups;
  for (const Action* action : actions) groups[subject_of(*action)].push_back(action);
  std::vector<Task<>> tasks;
  for (auto& [subject, group] : groups) tasks.push_back(act_in_order_when_free(std::move(group), stop));
  co_await when_all(loop_, std::move(tasks));
}

// One, two, four ... at once: where every creation is refused only a few are tried.
Task<> DriverPass::create_pods(Actions actions, std::stop_token stop) {
  const bool failed_before = std::exchange(failed_, false);
  std::size_t size = 1;
  for (std::size_t from = 0; from < actions.size() && !failed_;) {
    const std::size_t count = std::min(size, actions.size() - from);
    std::vector<Task<>> tasks;
    for (std::size_t i = from; i < from + count; ++i) tasks.push_back(act_in_order_when_free({actions[i]}, stop));
    co_await when_all(loop_, std::move(tasks));
    from += count;
    size *= 2;
  }
  failed_ = failed_ || failed_before;
}

bool DriverPass::lacks_claim(const CreatePod& pod) const {
  return std::ranges::any_of(pod.claims, [this](const auto& claim) { return unmade_claims_.contains(claim.second); });
}

// For some seconds, and from where the pass before ended: a webhook that hangs on the status of pods must hold up
// neither this NodeSet's next pass nor other NodeSets, and no pod but its own.
Task<> DriverPass::describe_pods(Actions actions, std::stop_token stop) {
  const auto next =
      std::ranges::find_if(actions, [this](const Action* action) { return subject_of(*action) > entry_.described; });
  std::ranges::rotate(actions, next);
  const TimePoint over = loop_.now() + kDescribes;
  std::vector<Task<>> tasks;
  for (const Action* action : actions) tasks.push_back(describe_when_free(*action, over, stop));
  co_await when_all(loop_, std::move(tasks));
}

Task<> DriverPass::describe_when_free(const Action& action, TimePoint over, std::stop_token stop) {
  const Semaphore::Permit permit = co_await at_once_.acquire(stop);
  if (!permit) co_return;
  if (loop_.now() >= over) {
    again_ = true;
    co_return;
  }
  entry_.described = subject_of(action);
  co_await act(action, stop);
}

std::string DriverPass::subject_of(const Action& action) const {
  if (const auto* what = as<AdoptPod>(action)) return what->name;
  if (const auto* what = as<ReleasePod>(action)) return what->name;
  if (const auto* what = as<PatchPod>(action)) return what->name;
  if (const auto* what = as<SetPodConditions>(action)) return what->name;
  if (const auto* what = as<DeletePod>(action)) return what->name;
  if (const auto* what = as<CreateClaim>(action)) return what->name;
  if (const auto* what = as<PatchClaimOwners>(action)) return what->claim;
  if (const auto* what = as<DeleteSlurmNode>(action)) return what->node;
  if (const auto* what = as<WriteSlurmNode>(action)) {
    const auto pod = pods_by_slurm_name_.find(what->node);
    return pod == pods_by_slurm_name_.end() ? what->node : pod->second;
  }
  return {};
}

// --- one action ------------------------------------------------------------------------------------------------------

// nullopt: it may be sent again at any time.
std::optional<DriverPass::Ground> DriverPass::ground_of(const Action& action) const {
  const auto of_pod = [&](const std::string& name) -> std::optional<Ground> {
    const auto pod = now_.pods.find(name);
    if (pod == now_.pods.end()) return std::nullopt;
    return Ground{name, pod->second->meta.resource_version};
  };
  if (const auto* what = as<AdoptPod>(action)) return of_pod(what->name);
  if (const auto* what = as<ReleasePod>(action)) return of_pod(what->name);
  if (const auto* what = as<PatchPod>(action)) return of_pod(what->name);
  if (const auto* what = as<SetPodConditions>(action)) return of_pod(what->name);
  if (as<SetFinalizer>(action)) return Ground{{}, now_.object->meta.resource_version};
  return std::nullopt;
}

bool DriverPass::was_sent(const Ground& ground, const std::string& words) const {
  const auto sent = entry_.sent.find(ground.object);
  return sent != entry_.sent.end() && sent->second.version == ground.version && sent->second.words.contains(words);
}

void DriverPass::note_sent(const Ground& ground, std::string words) {
  Entry::Sent& sent = entry_.sent[ground.object];
  if (sent.version != ground.version) sent = {.version = ground.version, .words = {}};
  sent.words.insert(std::move(words));
}

bool DriverPass::is_held_back(const Action& action) const {
  const auto* write = as<WriteSlurmNode>(action);
  if (write == nullptr || !now_.cluster) return false;
  const auto sent = entry_.slurm_writes.find(write->node);
  return sent != entry_.slurm_writes.end() && now_.cluster->mirror().nodes_as_of() <= sent->second;
}

Task<bool> DriverPass::act(Action action, std::stop_token stop) {
  if (!may_act() || stop.stop_requested()) {
    again_ = true;
    co_return false;
  }
  if (is_held_back(action)) {
    held_back_ = true;
    co_return true;
  }
  const std::optional<Ground> ground = ground_of(action);
  std::string words = describe(action);
  if (ground && was_sent(*ground, words)) co_return true;
  remember(entry_.memory, action, WallTime(loop_.now().time_since_epoch() + entry_.ahead));
  Performed result = co_await performer_.perform(action, stop);
  // What slurmctld was told of a topology is told again rather than taken for done.
  const auto* write = as<WriteSlurmNode>(action);
  const bool untold = result.outcome == Outcome::kMaybe && write != nullptr && write->topology;
  if (result.outcome == Outcome::kStale || result.outcome == Outcome::kFailed || untold) forget(entry_.memory, action);
  if (ground && result.outcome == Outcome::kDone) note_sent(*ground, std::move(words));
  const auto* claim = as<CreateClaim>(action);
  if (claim != nullptr && result.outcome != Outcome::kDone) unmade_claims_.insert(claim->name);
  report(action, result);
  co_return result.outcome == Outcome::kDone;
}

void DriverPass::report(const Action& action, const Performed& result) {
  const std::string_view kind = kKinds[action.what.index()];
  if (parts_.metrics != nullptr) {
    parts_.metrics->add("bascule_nodeset_actions_total", "Actions of NodeSet plans",
                        {{"action", std::string(kind)}, {"outcome", std::string(word(result.outcome))}});
  }
  const bool to_slurm = as<WriteSlurmNode>(action) || as<DeleteSlurmNode>(action);
  wrote_slurm_ |= to_slurm && (result.outcome == Outcome::kDone || result.outcome == Outcome::kMaybe);
  if (result.collision) entry_.collisions = now_.state.status.collisions.value_or(0) + 1;
  const NamespacedName& key = now_.object->meta.key;
  switch (result.outcome) {
    case Outcome::kDone:
      log::info(describe(action), {{"nodeset", key}});
      tell_done(action);
      return;
    case Outcome::kStale:
      again_ = true;
      log::info("not done", {{"nodeset", key}, {"action", describe(action)}, {"why", result.why}});
      return;
    case Outcome::kFailed:
    case Outcome::kMaybe:
      failed_ = true;
      if (not_done_.empty()) not_done_ = fmt::format("{}: {}", describe(action), result.why);
      log::warning(result.outcome == Outcome::kFailed ? "failed" : "answer lost",
                   {{"nodeset", key}, {"action", describe(action)}, {"why", result.why}});
      tell_failed(action, result.why);
  }
}

// Of many pods or claims the events of the plan tell the number.
void DriverPass::tell_done(const Action& action) const {
  const bool each_pod = pods_made_or_deleted_ <= kTold, each_claim = claims_changed_ <= kTold;
  if (const auto* pod = as<CreatePod>(action); pod != nullptr && each_pod) {
    event(EventType::kNormal, "SuccessfulCreate", "Create", fmt::format("pod {} created", pod->name),
          related_to(action));
  } else if (const auto* gone = as<DeletePod>(action); gone != nullptr && each_pod) {
    event(EventType::kNormal, "SuccessfulDelete", "Delete", fmt::format("pod {} deleted: {}", gone->name, action.why),
          related_to(action));
  } else if (const auto* claim = as<CreateClaim>(action); claim != nullptr && each_claim) {
    event(EventType::kNormal, "SuccessfulCreate", "Create", fmt::format("claim {} created", claim->name),
          related_to(action));
  } else if (as<PatchClaimOwners>(action) && each_claim) {
    event(EventType::kNormal, "SuccessfulUpdate", "Update", describe(action), related_to(action));
  }
}

void DriverPass::tell_failed(const Action& action, const std::string& why) const {
  const std::string note = fmt::format("{}: {}", describe(action), why);
  if (as<SetFinalizer>(action)) {
    event(EventType::kWarning, "SyncFinalizerFailed", "SyncFinalizer", note);
  } else if (as<CreatePod>(action) || as<CreateClaim>(action)) {
    event(EventType::kWarning, "FailedCreate", "Create", note, related_to(action));
  } else if (as<DeletePod>(action)) {
    event(EventType::kWarning, "FailedDelete", "Delete", note, related_to(action));
  } else {
    event(EventType::kWarning, "FailedUpdate", "Update", note, related_to(action));
  }
}

// --- what people are told --------------------------------------------------------------------------------------------

// Without its uid when it is not known, as just after it was made.
kube::ObjectReference DriverPass::pod_at(const std::string& name) const {
  const auto pod = now_.pods.find(name);
  return {"v1", "Pod", {now_.object->meta.key.ns, name}, pod == now_.pods.end() ? Uid() : pod->second->meta.uid};
}

kube::ObjectReference DriverPass::claim_at(const std::string& name) const {
  return {"v1", "PersistentVolumeClaim", {now_.object->meta.key.ns, name}, {}};
}

kube::ObjectReference DriverPass::related_to(const Action& action) const {
  const std::string name = subject_of(action);
  if (is_claim(action)) return claim_at(name);
  if (const auto* made = as<CreatePod>(action)) return pod_at(made->name);
  return now_.pods.contains(name) ? pod_at(name) : kube::ObjectReference{};
}

// A pod that is there is told of it, too: whoever looks at it sees no events that are only related to it.
void DriverPass::event(EventType type, std::string_view reason, std::string_view action, std::string note,
                       const kube::ObjectReference& related) const {
  const kube::ObjectMeta& meta = now_.object->meta;
  const kube::ObjectReference set{std::string(names::kApiVersion), "NodeSet", meta.key, meta.uid};
  const std::string reporter = names::reporter(set.kind);
  if (related.kind == "Pod" && !related.uid.empty()) {
    parts_.events.record(related, type, reason, action, note, {set, reporter});
  }
  parts_.events.record(set, type, reason, action, std::move(note), {related, reporter});
}

void DriverPass::tell(const Plan& plan) const {
  for (const Event& one : plan.events) {
    event(one.warning ? EventType::kWarning : EventType::kNormal, one.reason, one.action, one.note,
          !one.about_pod.empty()     ? pod_at(one.about_pod)
          : !one.about_claim.empty() ? claim_at(one.about_claim)
                                     : kube::ObjectReference{});
  }
}

// Whether the NodeSet is as it should be, and if not what it waits for. What Slurm does not tell for a moment is not
// worth a word.
std::optional<Condition> DriverPass::ready_condition(const Plan& plan, const Status& status) {
  std::optional<Condition> old = condition_at(now_.set.status, kReady);
  const bool missing = now_.state.controller == Presence::kGone;
  if (missing && now_.state.spec.deleted) return old;  // it goes at once, and its pods with it
  const bool patient = entry_.unknown_since && loop_.now() - *entry_.unknown_since < kUnknownPatience;
  const bool troubled = !now_.trouble.empty() && now_.sure;
  if (patient && old && !troubled && old->reason != kControllerMissing) return old;
  Condition condition{.type = std::string(kReady),
                      .reason = "AsSpecified",
                      .message = "",
                      .is_true = true,
                      .generation = now_.state.spec.generation,
                      .since = loop_.wall()};
  std::vector<std::string> why = plan.waits;
  if (!now_.trouble.empty()) why.push_back(now_.trouble);
  // Without a Controller there is no Slurm to be known.
  const bool unknown = entry_.unknown_since && !missing && now_.reason != reasons::kBadSpec;
  if (unknown) why.push_back("Slurm is not known: " + now_.state.slurm.why);
  // Once may pass by itself.
  if (entry_.failed_passes >= kKeepsFailing) why.push_back("not done: " + entry_.not_done);
  if (!why.empty() || !is_whole(plan, status)) {
    condition.is_true = false;
    condition.reason = why.empty()            ? "Progressing"
                       : unknown              ? reasons::kSlurmUnknown
                       : now_.trouble.empty() ? "Waiting"
                                              : now_.reason;
    condition.message =
        fmt::format("{} of {} pods are available", asked_for_and_available(plan, status), status.desired);
    if (!why.empty()) condition.message += ": " + joined(why);
  }
  if (!old) return condition;
  if (old->is_true == condition.is_true) condition.since = old->since;
  const bool only_words = old->is_true == condition.is_true && old->reason == condition.reason;
  if (only_words && old->message != condition.message && entry_.condition_at &&
      loop_.now() - *entry_.condition_at < kMessageEvery) {
    condition.message = old->message;
  }
  return condition;
}

Task<> DriverPass::write_status(const Plan& plan, std::stop_token stop) {
  if (!not_done_.empty()) {
    ++entry_.failed_passes;
    entry_.not_done = not_done_;
  } else if (!held_back_ && !again_) {
    entry_.failed_passes = 0;
  }
  Status status = now_.state.status;
  for (const Action& action : plan.actions) {
    if (const auto* what = as<WriteStatus>(action)) status = what->status;
  }
  if (!now_.planable) status.observed_generation = now_.state.spec.generation;
  json::Object wanted = print_status(now_.set.status, status);
  const std::optional<Condition> ready = ready_condition(plan, status);
  if (ready) set_condition(wanted, kReady, ready);
  const json::Value diff = json::diff_merge(now_.set.status, wanted);
  const json::Object* fields = diff.if_object();
  if (fields == nullptr || fields->empty()) co_return;
  const kube::ObjectMeta& meta = now_.object->meta;
  const Ground ground{{}, meta.resource_version};
  std::string words = json::dump(diff);
  if (was_sent(ground, words)) co_return;
  if (!may_act()) {
    again_ = true;
    co_return;
  }
  json::Value patch =
      json::Object{{"metadata", json::Object{{"uid", meta.uid.str()}, {"resourceVersion", meta.resource_version}}},
                   {"status", diff}};
  const NamespacedName key = meta.key;
  try {
    co_await parts_.kube.patch(kNodeSets, key, kube::PatchType::kMerge, std::move(patch), "status", {}, stop);
  } catch (const kube::Conflict&) {
    again_ = true;
    co_return;
  } catch (const kube::NotFound&) {
    co_return;
  } catch (const kube::Error& error) {
    log::warning("status not written", {{"nodeset", key}, {"why", error}});
    failed_ = true;
    co_return;
  }
  note_sent(ground, std::move(words));
  if (fields->contains("conditions")) entry_.condition_at = loop_.now();
}

}  // namespace bascule::op::nodeset

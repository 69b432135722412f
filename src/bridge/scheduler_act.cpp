#include <algorithm>

#include "base/log.hpp"
#include "bridge/at_once.hpp"
#include "bridge/names.hpp"
#include "bridge/pod_patch.hpp"
#include "bridge/scheduler_impl.hpp"
#include "bridge/unit_jobs.hpp"

namespace bascule::bridge {

using namespace std::chrono_literals;

namespace {

// Only of the pod as it was planned for: one that has been bound meanwhile, unseen, keeps the job that holds its node.
json::Object mark_patch(const kube::Pod& pod, JobId job) {
  return {{"metadata", json::Object{{"resourceVersion", pod.meta.resource_version},
                                    {"labels", json::Object{{std::string(names::kSlurmJobId), job.str()}}},
                                    {"finalizers", json::Array{std::string(names::kFinalizer)}}}}};
}

// Only of the pod as it was when it was last told its job: one that has got another since is not bound by this one,
// however late the call comes.
json::Value binding(const UnitPlan::Bind& bind, const std::string& version) {
  const kube::Pod& pod = *bind.pod;
  const std::string& node = bind.node->meta.key.name;
  json::Object annotations{{std::string(names::kSlurmNode), node}};
  if (bind.restarts > 0) annotations[names::kSlurmRestarts] = std::to_string(bind.restarts);
  if (bind.submitted > 0) annotations[names::kSlurmSubmitted] = std::to_string(bind.submitted);
  return json::Object{{"apiVersion", "v1"},
                      {"kind", "Binding"},
                      {"metadata", json::Object{{"name", pod.meta.key.name},
                                                {"namespace", pod.meta.key.ns},
                                                {"uid", pod.meta.uid.str()},
                                                {"resourceVersion", version},
                                                {"annotations", std::move(annotations)}}},
                      {"target", json::Object{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
}

}  // namespace

Task<> Scheduler::Impl::act(const UnitPlan& plan, Uid unit, std::stop_token stop) {
  for (const UnitPlan::Cancel& cancel : plan.cancels) co_await cancel_job(cancel, unit, stop);
  if (plan.submit) co_await submit(*plan.submit, unit, stop);
  for (const slurm::JobDescription& one : plan.more) {
    if (memory[unit].failures == 0) co_await submit(one, unit, stop);
  }
  if (plan.update) {
    const JobId job = plan.update->job;
    handed_on.insert(job);
    try {
      co_await update(*plan.update, unit, stop);
    } catch (...) {
      handed_on.erase(job);
      throw;
    }
    handed_on.erase(job);
  }
  co_await each_at_once(loop, plan.marks,
                        [this, &unit, &stop](const UnitPlan::Mark& mark) { return mark_pod(mark, unit, stop); });
  for (const UnitPlan::Volume& volume : plan.volumes) co_await make_volume(volume, unit, stop);
  for (const ClaimPtr& claim : plan.device_drops) {
    try {
      co_await devices.drop(claim, stop);
    } catch (const kube::Refused& error) {  // so will be the claim of the next job, which is then given back
      log::limited(log::Level::kWarning, 10s, "claim not removed", {{"claim", claim->meta.key}, {"why", error}});
    }
  }
  for (const JobId job : plan.layouts) co_await read_layout(job, unit, stop);
  // Those of the gang's other jobs stay: two would else be asked about in turns, as fast as Slurm answers.
  std::erase_if(memory[unit].confirmed, [this](const auto& one) { return one.second < loop.now(); });
  for (const JobId job : plan.confirms) co_await confirm(job, unit, stop);
  co_await bind_pods(plan.binds, unit, stop);
  if (!plan.looks.empty()) mirror.look_at(plan.looks);
  if (plan.look_soon) mirror.poke();
}

// Only that it runs counts. What else is said of it takes a table to be believed, or is another job by now.
Task<> Scheduler::Impl::confirm(JobId job, Uid unit, std::stop_token stop) {
  memory[unit].confirmed.erase(job);
  const std::optional<slurm::Job> asked = co_await mirror.ask(job, stop);
  if (asked && confirms(*asked, mirror.job(job).get())) {
    memory[unit].confirmed[job] = loop.now() + kConfirmWithin;
    controller->add(unit.str());
  } else {
    mirror.poke();
    controller->add_after(unit.str(), asked ? 100ms : 1s);
  }
}

Task<> Scheduler::Impl::submit(slurm::JobDescription description, Uid unit, std::stop_token stop) {
  if (!may_act()) co_return;
  memory[unit].submitting = true;
  const std::string comment = description.admin_comment.value_or("");
  slurm::Job job;
  job.name = description.name.value_or("");
  job.partition = description.partition.value_or("");
  try {
    job.id = co_await slurm.submit_external(std::move(description), stop);
  } catch (const slurm::Unreachable& error) {
    submit_failed(unit, error.what(), !error.surely_not_done);
  } catch (const slurm::Malformed& error) {
    submit_failed(unit, error.what(), true);
  } catch (const slurm::Error& error) {
    submit_failed(unit, error.what(), false);
  } catch (...) {
    submit_failed(unit, "the submit was interrupted", true);
    throw;
  }
  memory[unit].submitting = false;
  controller->add_first(unit.str());
  if (!job.id) co_return;
  memory[unit].failures = 0;
  memory[unit].submitted = loop.now();
  counters.accepted.add();
  log::info("job submitted", {{"job", job.id}, {"unit", unit.str()}});
  job.states.base = slurm::JobState::kPending;
  job.admin_comment = comment;
  job.external = true;
  mirror.learn(std::move(job));
  mirror.poke();
}

void Scheduler::Impl::submit_failed(const Uid& unit, const std::string& why, bool doubtful) {
  UnitMemory& mind = memory[unit];
  mind.failures = std::min(mind.failures + 1, 10u);
  mind.hold_until = loop.now() + std::min<Duration>(1s * (1u << (mind.failures - 1)), 60s);
  mind.hold_why = why;
  mind.submitting = false;
  if (doubtful) {
    mind.doubt = loop.now();
    look_for_lost_until = loop.now() + kDoubtSettles;
  }
  (doubtful ? counters.in_doubt : counters.refused).add();
  log::limited(log::Level::kWarning, 1s, "job not submitted", {{"unit", unit.str()}, {"why", why}});
}

// slurmctld may have lost the job, and given its id to another, whose record would be written over.
Task<bool> Scheduler::Impl::is_still_ours(JobId id, Uid unit, std::stop_token stop) {
  const auto seen = mirror.job(id);
  if (!seen || !mirror.may_be_lost(id)) co_return true;
  const Uid* known = index->unit_of_job(id);
  const Uid whose = known != nullptr ? *known : unit;  // it may be about to be handed on
  const std::optional<slurm::Job> asked = co_await mirror.ask(id, stop);
  co_return asked && index->has_job(whose, *asked);
}

Task<> Scheduler::Impl::update(UnitPlan::Update update, Uid unit, std::stop_token stop) {
  const bool ours = co_await is_still_ours(update.job, unit, stop);
  if (!ours) co_return controller->add_after(unit.str(), 1s);
  UnitMemory::Asked asked;
  bool gone = false;
  try {
    if (update.description.priority) {  // that of a job held meanwhile would release it: planned anew
      const std::optional<slurm::Job> now = co_await mirror.ask(update.job, stop);
      if (now && now->hold) co_return controller->add_after(unit.str(), 1s);
    }
    co_await slurm.update_job(update.job, std::move(update.description), stop);
    co_await mirror.ask(update.job, stop);
  } catch (const slurm::NotFound& error) {
    gone = error.number() != slurm::kInvalidNode;
    if (!gone) asked.refused = update.fingerprint;  // one of its lists names it
    asked.why = error.what();
  } catch (const slurm::Refused& error) {
    // The job stays as it was; another change of the request is tried again. What else fails is, with back-off: an
    // update may be repeated.
    asked.refused = update.fingerprint;
    asked.why = error.what();
  }
  if (gone) {
    mirror.poke();
    co_return controller->add_after(unit.str(), 1s);
  }
  UnitMemory::Asked& known = memory[unit].updates[update.job];
  asked.pace = known.pace;
  asked.pace.mark(loop.now(), kUpdateQuiet);
  known = asked;
  if (asked.refused.empty()) co_return;
  log::warning("job not updated", {{"job", update.job}, {"why", asked.why}});
  controller->add(unit.str());
  mirror.poke();
}

Task<> Scheduler::Impl::cancel_job(UnitPlan::Cancel cancel, Uid unit, std::stop_token stop) {
  const auto seen = mirror.job(cancel.job);
  if (!seen) co_return;
  if (mirror.may_be_lost(cancel.job)) {
    // slurmctld may have lost it, and given its id to another.
    const std::optional<slurm::Job> asked = co_await mirror.ask(cancel.job, stop);
    if (!asked || !index->has_job(unit, *asked)) co_return mirror.poke();
  }
  if (co_await holds_pod(cancel.job, unit, stop)) co_return controller->add_after(unit.str(), 1s);
  log::info("job cancelled", {{"job", cancel.job}, {"unit", unit.str()}, {"why", cancel.why}});
  std::string refused;
  memory[unit].cancelling.insert_or_assign(cancel.job, cancel.why);
  try {
    co_await slurm.cancel_job(cancel.job, stop);
  } catch (const slurm::NotFound&) {
  } catch (const slurm::Refused& error) {
    refused = error.what();
  } catch (const slurm::Unreachable& error) {
    if (error.surely_not_done) memory[unit].cancelling.erase(cancel.job);
    throw;
  }
  memory[unit].cancelling.erase(cancel.job);
  if (!refused.empty()) {  // that holds up nothing else of the unit
    log::limited(log::Level::kWarning, 10s, "job not cancelled", {{"job", cancel.job}, {"why", refused}});
    co_return controller->add_after(unit.str(), 30s);
  }
  for (const PodPtr& pod : index->pods(unit)) {
    events.record(reference_to(*pod), kube::EventType::kWarning, "SlurmJobCancelled", "Cancelling",
                  "Slurm job " + cancel.job.str() + " cancelled: " + cancel.why);
  }
  co_await mirror.ask(cancel.job, stop);
  mirror.poke();
}

// A pod that seems to wait may have been bound: the answer was lost and the watch is late. Its job is all that keeps
// its node, so the API server itself is asked first.
Task<bool> Scheduler::Impl::holds_pod(JobId job, Uid unit, std::stop_token stop) {
  std::vector<PodPtr> marked = index->pods(unit);
  const std::optional<JobRecord> record = index->record(job);
  std::erase_if(marked, [&](const PodPtr& pod) {
    const auto written = memory[unit].marked.find(pod->meta.uid);
    const bool its = label_of(*pod) == job || (written != memory[unit].marked.end() && written->second.job == job) ||
                     (record && std::ranges::find(record->uids, pod->meta.uid) != record->uids.end());
    return !its || !wants_node(*pod);
  });
  // It may be bound yet, by a call that is on its way.
  const auto doubted = [this, &unit](const PodPtr& pod) { return memory[unit].doubted.contains(pod->meta.uid); };
  if (std::ranges::any_of(marked, doubted)) co_return true;
  bool holds = false;
  co_await each_at_once(loop, marked, [this, &unit, &holds, &stop](const PodPtr& pod) {
    return look_for_binding(pod, unit, holds, stop);
  });
  const std::vector<PodPtr> all = index->pods(unit);
  const auto seen = mirror.job(job);
  if (holds || all.size() == marked.size() || !seen || !runs(*seen)) co_return holds;
  // Another of its gang that has been told this job, unseen.
  const json::Array told = co_await pods_of_job(kube, all.front()->meta.key.ns, job, stop);
  co_return std::ranges::any_of(told, [](const json::Value& pod) { return is_bound(pod) && !is_over(pod); });
}

Task<> Scheduler::Impl::look_for_binding(PodPtr pod, Uid unit, bool& holds, std::stop_token stop) {
  const std::optional<json::Value> now = co_await read_pod(kube, pod->meta.key, pod->meta.uid, stop);
  if (!now || !is_bound(*now) || is_over(*now)) co_return;
  const std::string_view node = json::string_at(*now, {"spec", "nodeName"});
  holds = true;
  memory[unit].binding.insert_or_assign(pod->meta.uid, UnitMemory::Binding{NodeName(node), loop.now()});
  log::warning("pod is bound, which the watch has not told yet", {{"pod", pod->meta.key}, {"node", node}});
}

// Nor may others have the pod's place on the node before it is known that it is not there.
Task<> Scheduler::Impl::settle_bindings(Uid unit, std::stop_token stop) {
  std::vector<PodPtr> unsure = index->pods(unit);
  std::erase_if(unsure, [&](const PodPtr& pod) {
    const auto known = memory[unit].binding.find(pod->meta.uid);
    return known == memory[unit].binding.end() || !known->second.unsure || !wants_node(*pod);
  });
  co_await each_at_once(loop, unsure, [this, &unit, &stop](const PodPtr& pod) { return settle(pod, unit, stop); });
}

Task<> Scheduler::Impl::settle(PodPtr pod, Uid unit, std::stop_token stop) {
  bool bound = false;
  co_await look_for_binding(pod, unit, bound, stop);
  const auto known = memory[unit].binding.find(pod->meta.uid);
  if (bound || known == memory[unit].binding.end()) co_return;
  memory[unit].doubted[pod->meta.uid] = {known->second.node, known->second.since + kDoubtSettles};
  memory[unit].binding.erase(known);
}

Task<> Scheduler::Impl::mark_pod(UnitPlan::Mark mark, Uid unit, std::stop_token stop) {
  std::optional<std::string> version;
  try {
    version = co_await patch_pod(kube, mark.pod, mark_patch(*mark.pod, mark.job), {}, stop);
  } catch (const kube::Refused& error) {
    deny(unit, mark.pod, UnitMemory::Denial::What::kMark, error);
  }
  if (!version) co_return;  // the pod has gone, or is another by now; its event is on the way
  memory[unit].marked.insert_or_assign(mark.pod->meta.uid, UnitMemory::Marked{mark.job, *std::move(version)});
  controller->add_first(unit.str());
}

Task<> Scheduler::Impl::make_volume(UnitPlan::Volume volume, Uid unit, std::stop_token stop) {
  using What = UnitMemory::Denial::What;
  bool refused = false;
  try {
    co_await volumes.make(std::move(volume.binding), stop);
  } catch (const kube::Refused& error) {
    refused = true;
    deny(unit, volume.pod, What::kVolume, error);
  }
  std::map<Uid, UnitMemory::Denial>& denied = memory[unit].denied;
  const auto denial = denied.find(volume.pod->meta.uid);
  if (!refused && denial != denied.end() && denial->second.what == What::kVolume) denied.erase(denial);
}

Task<> Scheduler::Impl::read_layout(JobId job, Uid unit, std::stop_token stop) {
  std::optional<JobLayout> layout;
  std::string why = "it names no resources of the job";
  try {
    layout = co_await devices.layout(job, stop);
  } catch (const slurm::Refused& error) {
    why = error.what();
  } catch (const slurm::NotFound& error) {
    why = error.what();
  } catch (const slurm::Busy&) {
    co_return;  // that says nothing of the job; the plan asks again
  } catch (const slurm::Malformed& error) {
    log::limited(log::Level::kWarning, 10s, "what a job holds cannot be read", {{"job", job}, {"why", error}});
    co_return;
  }
  if (layout) {
    memory[unit].layouts.insert_or_assign(job, std::move(*layout));
    memory[unit].untold.erase(job);
    controller->add_first(unit.str());
  } else {
    memory[unit].untold.insert_or_assign(job, std::move(why));  // the plan asks again
  }
}

// Tolerations and claims first, and of a gang that starts all of them: whose claim does not stand is not bound.
Task<> Scheduler::Impl::bind_pods(std::vector<UnitPlan::Bind> binds, Uid unit, std::stop_token stop) {
  for (const PodPtr& pod : index->pods(unit)) {
    const Uid& uid = pod->meta.uid;
    const bool tried = std::ranges::any_of(binds, [&uid](const auto& one) { return one.pod->meta.uid == uid; });
    const bool may_hold = memory[unit].binding.contains(uid) || memory[unit].doubted.contains(uid);
    if (!tried && wants_node(*pod) && !may_hold) devices.forget(uid);
  }
  std::set<Uid> unready;
  co_await each_at_once(loop, binds, [this, &unit, &unready, &stop](const UnitPlan::Bind& bind) {
    return tolerate(bind, unit, unready, stop);
  });
  co_await each_at_once(loop, binds, [this, &unit, &unready, &stop](const UnitPlan::Bind& bind) {
    return claim_devices(bind, unit, unready, stop);
  });
  if (!unready.empty()) controller->add_after(unit.str(), 1s);
  std::set<JobId> incomplete;
  for (const UnitPlan::Bind& bind : binds) {
    if (bind.all_or_none && unready.contains(bind.pod->meta.uid)) incomplete.insert(bind.job);
  }
  std::erase_if(binds, [&](const UnitPlan::Bind& bind) {
    return unready.contains(bind.pod->meta.uid) || incomplete.contains(bind.job);
  });
  co_await drop_ended(binds, unit, stop);
  co_await each_at_once(loop, binds,
                        [this, &unit, &stop](const UnitPlan::Bind& bind) { return bind_pod(bind, unit, stop); });
}

// What was written before may have taken longer than a job counts as confirmed, and Slurm may have ended it and given
// its node away meanwhile.
Task<> Scheduler::Impl::drop_ended(std::vector<UnitPlan::Bind>& binds, Uid unit, std::stop_token stop) {
  std::map<JobId, std::shared_ptr<const slurm::Job>> now;
  for (const UnitPlan::Bind& bind : binds) now.try_emplace(bind.job);
  for (auto& [id, job] : now) {
    const auto& asked = memory[unit].confirmed;
    const auto known = asked.find(id);
    const bool fresh = (mirror.listed_since_away() && loop.now() - mirror.confirmed_at(id) <= kConfirmWithin) ||
                       (known != asked.end() && loop.now() <= known->second);
    // Its id may be another's by now; and the answer itself counts, which the mirror may have dropped for an older
    // table.
    if (fresh) {
      if (index->has_job(unit, id)) job = mirror.job(id);
      continue;
    }
    std::optional<slurm::Job> answer = co_await mirror.ask(id, stop);
    if (answer && index->has_job(unit, *answer)) job = std::make_shared<const slurm::Job>(*std::move(answer));
  }
  const auto ended = std::erase_if(binds, [&now](const UnitPlan::Bind& bind) {
    const std::shared_ptr<const slurm::Job>& job = now.at(bind.job);
    return !job || !runs(*job) || job->restart_count != bind.restarts;
  });
  if (ended > 0) controller->add(unit.str());
}

// The webhook does it where it sees the pod. The taint of a node of ours evicts whoever does not tolerate it, so it
// must stand before the binding.
Task<> Scheduler::Impl::tolerate(UnitPlan::Bind bind, Uid unit, std::set<Uid>& unready, std::stop_token stop) {
  if (!needs_toleration(*bind.pod)) co_return;
  const Uid uid = bind.pod->meta.uid;
  unready.insert(uid);
  if (!may_act()) co_return;
  std::optional<std::string> version;
  try {
    version = co_await add_toleration(kube, bind.pod, stop);
  } catch (const kube::Refused& error) {
    deny(unit, bind.pod, UnitMemory::Denial::What::kBinding, error);
  }
  if (!version) co_return;
  unready.erase(uid);
  memory[unit].marked.insert_or_assign(uid, UnitMemory::Marked{bind.job, *std::move(version)});
}

Task<> Scheduler::Impl::claim_devices(UnitPlan::Bind bind, Uid unit, std::set<Uid>& unready, std::stop_token stop) {
  if (!bind.device_claim || unready.contains(bind.pod->meta.uid)) co_return;
  unready.insert(bind.pod->meta.uid);
  if (!may_act()) co_return;
  const Uid uid = bind.pod->meta.uid;
  ClaimWriter::Ensured made;
  bool refused = false;
  try {
    made = co_await devices.make(bind.pod, std::move(*bind.device_claim), stop);
  } catch (const kube::Refused& error) {
    refused = true;
    deny(unit, bind.pod, UnitMemory::Denial::What::kClaimRefused, error);
  }
  if (refused) co_return;
  if (!made) {
    memory[unit].deny(uid, UnitMemory::Denial::What::kClaim, made.error(), loop.now());
    notes.tell({"ClaimNotReady", std::move(made.error()), {}, {bind.pod}});
    co_return;
  }
  unready.erase(uid);
  if (!made->empty()) memory[unit].marked.insert_or_assign(uid, UnitMemory::Marked{bind.job, *std::move(made)});
  const auto denial = memory[unit].denied.find(uid);
  if (denial != memory[unit].denied.end() && denial->second.of_claim()) memory[unit].denied.erase(denial);
}

// Whoever else writes to the pod meanwhile, a condition or an annotation, changes nothing of its job.
Task<> Scheduler::Impl::create_binding(UnitPlan::Bind bind, std::string version, std::stop_token stop) {
  for (int more = 2;; --more) {
    std::exception_ptr conflict;
    try {
      co_await kube.create_sub(kube::resources::kPods, bind.pod->meta.key, "binding", binding(bind, version), stop);
      co_return;
    } catch (const kube::Conflict&) {
      conflict = std::current_exception();
    }
    const std::optional<json::Value> now = co_await read_pod(kube, bind.pod->meta.key, bind.pod->meta.uid, stop);
    const bool changed = now && !is_bound(*now) && version_of(*now) != version;
    const bool its = now && job_label(*now) == bind.job.str();
    if (more == 0 || !changed || !its || !may_act()) std::rethrow_exception(conflict);
    version = version_of(*now);
  }
}

Task<> Scheduler::Impl::bind_pod(UnitPlan::Bind bind, Uid unit, std::stop_token stop) {
  if (!may_act()) co_return;
  const Uid uid = bind.pod->meta.uid;
  const std::string node = bind.node->meta.key.name;
  table.usage().assume(bind.pod, node, bind.job, bind.restarts);
  memory[unit].binding.insert_or_assign(uid, UnitMemory::Binding{NodeName(node), loop.now()});
  bool failed = false;
  bool denied = false;
  bool unsure = false;
  try {
    const auto marked = memory[unit].marked.find(uid);
    const bool unseen = marked != memory[unit].marked.end() && !marked->second.version.empty();
    co_await create_binding(bind, unseen ? marked->second.version : bind.pod->meta.resource_version, stop);
  } catch (const kube::NotFound&) {
    failed = true;
  } catch (const kube::Conflict& error) {
    failed = true;
    unsure = true;  // it may be bound by a call before
    log::warning("pod not bound", {{"pod", bind.pod->meta.key}, {"why", error}});
  } catch (const kube::Refused& error) {
    denied = true;
    deny(unit, bind.pod, UnitMemory::Denial::What::kBinding, error);
  } catch (...) {
    memory[unit].binding[uid] = {NodeName(node), loop.now(), true};
    throw;
  }
  if (failed || denied) {
    if (unsure) {
      memory[unit].binding[uid] = {NodeName(node), loop.now(), true};
    } else {
      unassume(unit, uid);
    }
    if (failed) memory[unit].bind_after = loop.now() + 1s;
    // It stays where a call before this one may have bound the pod yet.
    if (bind.device_claim && !memory[unit].doubted.contains(uid))
      co_await devices.undo(bind.pod, bind.device_claim->key, stop);
    if (failed) controller->add_after(unit.str(), 1s);
    co_return;
  }
  controller->add_after(unit.str(), kBindingSeenWithin);  // should nothing be heard of it
  counters.bound.add();
  log::info("pod bound", {{"pod", bind.pod->meta.key}, {"node", node}, {"job", bind.job}});
  events.record(
      reference_to(*bind.pod), kube::EventType::kNormal, "Scheduled", "Binding",
      "Successfully assigned " + bind.pod->meta.key.str() + " to " + node + " by Slurm job " + bind.job.str());
}

// That pod alone is held up by it; the plan says for how long.
void Scheduler::Impl::deny(const Uid& unit, const PodPtr& pod, UnitMemory::Denial::What what,
                           const kube::Error& error) {
  memory[unit].deny(pod->meta.uid, what, error.what(), loop.now());
  log::limited(log::Level::kWarning, 10s, "Kubernetes does not let a pod start",
               {{"pod", pod->meta.key}, {"why", error}});
  controller->add(unit.str());
}

void Scheduler::Impl::unassume(const Uid& unit, const Uid& pod) {
  memory[unit].binding.erase(pod);
  if (!memory[unit].doubted.contains(pod)) table.usage().forget(pod);
}

}  // namespace bascule::bridge

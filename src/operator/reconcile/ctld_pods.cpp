#include "operator/reconcile/ctld_pods.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/async.hpp"
#include "base/log.hpp"
#include "operator/api/derived.hpp"
#include "operator/api/names.hpp"
#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/reconcile/children.hpp"
#include "operator/reconcile/stale_pod.hpp"

namespace bascule::op::reconcile {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLookAgain = 10s;
// slurmctld itself is asked, or a backup serves and gives back when its elder returns.
constexpr Duration kLookAgainSoon = 2s;
// The first of the configuration has returned, and takes over any moment.
constexpr Duration kHandover = 500ms;

}  // namespace

Task<> CtldPods::replace_stale(ObjectPtr object, View& view, Plan& plan, std::stop_token stop) {
  const std::string name = names::controller(object->meta.key.name);
  const WallTime now = parts_.kube.loop().wall();
  const json::Value* set = view.find(kStatefulSets, name);
  if (!set || !is_owned_by(*set, object->meta.uid.str())) co_return;
  std::vector<const json::Value*> pods;
  const std::int64_t count = json::int_at(*set, {"spec", "replicas"}).value_or(1);
  for (std::int64_t i = 0; i < count; ++i) {
    const json::Value* pod = view.find(kube::resources::kPods, names::controller_pod(object->meta.key.name, i));
    if (pod && is_owned_by(*pod, std::string(json::string_at(*set, {"metadata", "uid"})))) pods.push_back(pod);
  }
  const StalePlan stale = plan_stale_pod(*set, pods, now);
  if (stale.wake) plan.wake = std::min(plan.wake.value_or(*stale.wake), *stale.wake);
  if (!stale.remove) co_return;
  parts_.require_turn();
  try {
    co_await parts_.kube.remove(kube::resources::kPods, {object->meta.key.ns, stale.remove->name},
                                {.uid = Uid{stale.remove->uid}}, stop);
    parts_.telling.event(
        kControllers, *object, kube::EventType::kNormal, "DeleteSucceeded", "Delete",
        fmt::format("deleted pod {}, which was not ready and not as it is wanted now", stale.remove->name),
        {"v1", "Pod", {object->meta.key.ns, stale.remove->name}, Uid{stale.remove->uid}});
  } catch (const kube::NotFound&) {
  } catch (const kube::Error& error) {
    log::limited(log::Level::kWarning, 10s, "a slurmctld that is not ready cannot be replaced",
                 {{"pod", stale.remove->name}, {"why", error}});
    plan.wake = now + 10s;
  }
}

Task<std::vector<CtldPod>> CtldPods::look(const Controller& controller, View& view, std::stop_token stop) {
  std::vector<CtldPod> pods;
  const std::int64_t count = replicas(controller);
  for (std::int64_t i = 0; i < count; ++i) {
    std::string name = names::controller_pod(controller.meta.name, i);
    const json::Value* pod = view.find(kube::resources::kPods, name);
    if (pod == nullptr) continue;
    CtldPod& one = pods.emplace_back(std::move(name), std::string(json::string_at(*pod, {"metadata", "uid"})),
                                     json::string_at(*pod, {"metadata", "labels", names::kActive}) == "true");
    if (count > 1 && parts_.serves) one.url = ready_url(controller, *pod);
    one.runs = slurmctld_runs(*pod);
  }
  // One that is starting or giving back does not answer at all for seconds: the others are not asked the later for it.
  std::vector<Task<>> asked;
  for (CtldPod& pod : pods) {
    if (pod.url) asked.push_back(ask(pod, stop));
  }
  co_await when_all(parts_.kube.loop(), std::move(asked));
  co_return pods;
}

Task<> CtldPods::ask(CtldPod& pod, std::stop_token stop) {
  pod.serves = co_await parts_.serves(*pod.url, stop);
}

Task<std::optional<Duration>> CtldPods::mark_active(ObjectPtr object, View& view, std::stop_token stop) {
  std::optional<Controller> controller;
  try {
    controller = read_controller(object->value);
  } catch (const BadObject&) {
    co_return std::nullopt;
  }
  if (controller->external) co_return std::nullopt;
  const bool several = replicas(*controller) > 1;
  const std::vector<CtldPod> pods = co_await look(*controller, view, stop);
  const bool asked = std::ranges::any_of(pods, [](const CtldPod& pod) { return pod.serves.has_value(); });
  if (asked) heard_.insert(object->meta.uid);
  // The ping knows no standby, and takes long where nobody answers: it is for those who do not speak for themselves.
  std::optional<std::vector<std::string>> answering;
  if (several && !heard_.contains(object->meta.uid) && parts_.answering)
    answering = co_await parts_.answering(object->meta.key, stop);
  try {
    for (const LabelChange& change : plan_active_label(*controller, pods, answering)) {
      co_await label(object->meta.key.ns, change, stop);
    }
  } catch (const kube::Error& error) {
    log::limited(log::Level::kWarning, 10s, "the slurmctld that serves cannot be labelled",
                 {{"controller", object->meta.key.str()}, {"why", error}});
    co_return kLookAgain;
  }
  if (!several) co_return std::nullopt;
  const bool elder = !pods.empty() && pods.front().name == names::controller_pod(controller->meta.name, 0);
  if (elder && pods.front().url && !pods.front().serves.value_or(false)) co_return kHandover;
  co_return !asked && elder && pods.front().active ? kLookAgain : kLookAgainSoon;
}

Task<> CtldPods::label(std::string ns, LabelChange change, std::stop_token stop) {
  parts_.require_turn();
  json::Object labels{{names::kActive, change.active ? json::Value("true") : json::Value(nullptr)}};
  json::Value patch = json::Object{{"metadata", json::Object{{"uid", change.uid}, {"labels", std::move(labels)}}}};
  try {
    co_await parts_.kube.patch(kube::resources::kPods, {std::move(ns), change.pod}, kube::PatchType::kMerge,
                               std::move(patch), {}, {.field_manager = std::string(kFieldManager)}, stop);
  } catch (const kube::NotFound&) {
    co_return;  // it went meanwhile; its successor wakes us
  } catch (const kube::Conflict&) {
    co_return;  // another of its name
  }
  log::info(change.active ? "slurmctld serves" : "slurmctld no longer serves", {{"pod", change.pod}});
}

}  // namespace bascule::op::reconcile

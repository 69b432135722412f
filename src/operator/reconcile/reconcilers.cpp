#include "operator/reconcile/reconcilers.hpp"

#include <fmt/format.h>

#include <array>
#include <random>
#include <set>
#include <stdexcept>

#include "base/log.hpp"
#include "kube/condition.hpp"
#include "net/http.hpp"
#include "operator/api/derived.hpp"
#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/builders/loginset.hpp"
#include "operator/reconcile/active_pod.hpp"
#include "operator/reconcile/children.hpp"
#include "operator/reconcile/conditions.hpp"
#include "operator/reconcile/stale_pod.hpp"
#include "operator/reconcile/watchers.hpp"
#include "runtime/controller.hpp"

namespace bascule::op::reconcile {

namespace {

using namespace std::chrono_literals;

// Names as slurm-operator's metrics have them.
struct Kind {
  const kube::Resource* resource;
  const char* name;
  std::size_t ReconcileOptions::* workers;
  bool status;  // ours to write
};
const std::array<Kind, 6> kKinds{
    Kind{&kControllers, "controller-controller", &ReconcileOptions::controller_workers, true},
    Kind{&kAccountings, "accounting-controller", &ReconcileOptions::accounting_workers, true},
    Kind{&kRestApis, "restapi-controller", &ReconcileOptions::restapi_workers, true},
    Kind{&kLoginSets, "loginset-controller", &ReconcileOptions::loginset_workers, true},
    Kind{&kTokens, "token", &ReconcileOptions::token_workers, true},
    Kind{&kNodeSets, "nodeset-files", &ReconcileOptions::controller_workers, false}};

std::string thing_of(const kube::Resource& resource, const NamespacedName& key) {
  return resource.resource + "/" + key.str();
}
std::string node_sets_thing(const NamespacedName& controller) {
  return "nodesets of/" + controller.str();
}
std::string reader_of(const Kind& kind, const std::string& key) {
  return kind.resource->resource + " " + key;
}

// For NodeSets and disruption budgets, whose status changes with every pod: whether anything else has.
bool only_status_changed(const kube::DynamicObject& before, const kube::DynamicObject& after) {
  const auto same_owner = [](const kube::OwnerReference& a, const kube::OwnerReference& b) {
    return a.uid == b.uid && a.controller == b.controller;
  };
  return before.meta.uid == after.meta.uid && before.meta.generation == after.meta.generation &&
         before.meta.labels == after.meta.labels && before.meta.annotations == after.meta.annotations &&
         before.meta.deleted == after.meta.deleted &&
         std::ranges::equal(before.meta.owners, after.meta.owners, same_owner);
}

bool is_ready(const kube::DynamicObject& pod) {
  return kube::holds(kube::find_condition(json::array_at(pod.value, {"status", "conditions"}), "Ready"));
}

// For pods of slurmctld: nothing that could make another one serve.
bool serves_alike(const kube::DynamicObject& before, const kube::DynamicObject& after) {
  return before.meta.uid == after.meta.uid && before.meta.labels == after.meta.labels &&
         before.meta.deleted == after.meta.deleted && is_ready(before) == is_ready(after);
}

std::string random_id() {
  std::random_device device;
  const auto word = [&device] { return (std::uint64_t{device()} << 32U) | device(); };
  const std::uint64_t a = word();
  const std::uint64_t b = word();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", a >> 32U, (a >> 16U) & 0xffffU, a & 0xfffU,
                     0x8000U | (b >> 48U & 0x3fffU), b & 0xffffffffffffU);
}

// Looks into the caches, and notes what was looked for.
class CachedView final : public View {
 public:
  CachedView(const Caches& caches, Watchers& watchers, std::string reader, std::string ns)
      : caches_(caches), watchers_(watchers), reader_(std::move(reader)), ns_(std::move(ns)) {}

  const json::Value* find(const kube::Resource& resource, std::string_view name) override {
    const NamespacedName key{ns_, std::string(name)};
    watchers_.note(reader_, thing_of(resource, key));
    return keep(caches_.get(resource, key));
  }
  std::vector<const json::Value*> node_sets_of(std::string_view controller) override {
    const NamespacedName key{ns_, std::string(controller)};
    watchers_.note(reader_, node_sets_thing(key));
    std::vector<const json::Value*> out;
    for (const ObjectPtr& object : caches_.node_sets_of(key)) out.push_back(keep(object));
    return out;
  }

 private:
  const json::Value* keep(ObjectPtr object) {
    if (!object) return nullptr;
    kept_.push_back(std::move(object));
    return &kept_.back()->value;
  }

  const Caches& caches_;
  Watchers& watchers_;
  std::string reader_;
  std::string ns_;
  std::vector<ObjectPtr> kept_;
};

}  // namespace

struct Reconcilers::Impl {
  Impl(Parts p, ReconcileOptions o)
      : parts(p), loop(p.kube.loop()), options(std::move(o)), children(p.kube, p.caches, [this] { require_turn(); }) {
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      queues[i] = std::make_unique<runtime::Controller>(
          loop, runtime::ControllerOptions{.name = kKinds[i].name, .workers = options.*kKinds[i].workers},
          [this, i](std::string key, std::stop_token stop) { return reconcile(i, std::move(key), std::move(stop)); },
          parts.metrics);
    }
    parts.caches.on_change([this](const kube::Resource& resource, const ObjectPtr& before, const ObjectPtr& after) {
      changed(resource, before, after);
    });
  }

  Parts parts;
  Loop& loop;
  ReconcileOptions options;
  Children children;
  std::array<std::unique_ptr<runtime::Controller>, kKinds.size()> queues;
  Watchers watchers;
  struct Memory {
    std::set<std::string> said;  // by events
    std::string status_before;   // resourceVersion our last status was written over
    json::Value status = {};     // that status
  };
  std::map<std::string, Memory> memory;  // by reader

  void require_turn() const {
    if (options.may_act && !options.may_act()) throw std::runtime_error("this process does not lead any longer");
  }

  // --- what wakes whom ---------------------------------------------------------------------------------------------

  void wake(const std::string& thing) {
    for (const std::string& reader : watchers.of(thing)) {
      const std::size_t blank = reader.find(' ');
      for (std::size_t i = 0; i < kKinds.size(); ++i) {
        if (kKinds[i].resource->resource == std::string_view(reader).substr(0, blank)) {
          queues[i]->add(std::string_view(reader).substr(blank + 1));
        }
      }
    }
  }

  void changed(const kube::Resource& resource, const ObjectPtr& before, const ObjectPtr& after) {
    const NamespacedName& key = (after ? after : before)->meta.key;
    const bool node_set = &resource == &kNodeSets;
    const bool busy_status = node_set || &resource == &kBudgets;
    if (busy_status && before && after && only_status_changed(*before, *after)) return;
    const bool pod = &resource == &kube::resources::kPods;
    if (pod && before && after && serves_alike(*before, *after)) return;
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      if (kKinds[i].resource == &resource) queues[i]->add(key.str());
    }
    if (!after) children.forget(resource, key);
    if (&resource == &kControllers && before && !before->meta.deleted && (!after || after->meta.deleted)) warn(*before);
    wake(thing_of(resource, key));
    if (!node_set) return;
    if (before) wake(node_sets_thing(controller_of_node_set(*before)));
    if (after) wake(node_sets_thing(controller_of_node_set(*after)));
  }

  // A Controller is deleted, and what runs under it is nobody's any longer: not in silence.
  void warn(const kube::DynamicObject& controller) {
    std::int64_t busy = 0;
    std::string sets;
    for (const ObjectPtr& set : parts.caches.node_sets_of(controller.meta.key)) {
      const std::int64_t here = json::int_at(set->value, {"status", "slurmAllocated"}).value_or(0);
      if (here <= 0) continue;
      busy += here;
      sets += (sets.empty() ? "" : ", ") + set->meta.key.name;
    }
    if (busy == 0) return;
    std::string note = fmt::format(
        "deleted while {} of its Slurm nodes run jobs (NodeSets: {}); these jobs end with their workers. NodeSets that "
        "are deleted first let their jobs end",
        busy, sets);
    log::warning("a Controller with running jobs is deleted",
                 {{"controller", controller.meta.key.str()}, {"nodes", busy}});
    event(kKinds.front(), controller, kube::EventType::kWarning, "JobsAtRisk", "Delete", std::move(note));
  }

  // --- one object --------------------------------------------------------------------------------------------------

  Plan plan_of(const Kind& kind, const kube::DynamicObject& object, View& view) {
    try {
      if (kind.resource == &kControllers) return plan_controller(object.value, view, loop.wall());
      if (kind.resource == &kAccountings) return plan_accounting(object.value, view);
      if (kind.resource == &kRestApis) return plan_restapi(object.value, view);
      if (kind.resource == &kLoginSets) return plan_loginset(object.value, view, options.domain);
      if (kind.resource == &kTokens) return plan_token(object.value, view, random_id(), loop.wall());
      return plan_nodeset_files(object.value, view);
    } catch (const BadObject& error) {
      Plan plan;
      plan.faults.push_back({"BadSpec", error.what()});
      return plan;
    }
  }

  Task<runtime::Result> reconcile(std::size_t index, std::string key, std::stop_token stop) {
    const Kind& kind = kKinds[index];
    const std::string reader = reader_of(kind, key);
    const NamespacedName name = NamespacedName::parse(key);
    const ObjectPtr object = parts.caches.get(*kind.resource, name);
    if (!object) {
      watchers.forget(reader);
      memory.erase(reader);
      co_return runtime::Result{};
    }
    // Its children go with it.
    if (object->meta.deleted) co_return runtime::Result{};
    watchers.begin(reader);
    CachedView view(parts.caches, watchers, reader, name.ns);
    Plan plan = plan_of(kind, *object, view);
    std::exception_ptr failure;
    if (plan.needs_host_keys) co_await make_host_keys(object, kind, plan, failure, stop);
    co_await make_children(object, kind, reader, plan, failure, stop);
    std::optional<Duration> again;
    if (kind.resource == &kControllers) {
      again = co_await mark_active(object, view, stop);
      co_await replace_stale(object, kind, view, plan, stop);
    }
    watchers.finish(reader);
    if (stop.stop_requested()) co_return runtime::Result{};
    tell(kind, *object, reader, plan);
    if (kind.status) co_await write_status(object, kind, reader, plan, stop);
    if (failure) std::rethrow_exception(failure);
    runtime::Result result;
    if (plan.wake) result.requeue_after = std::max<Duration>(*plan.wake - loop.wall(), 100ms);
    if (again) result.requeue_after = std::min(result.requeue_after.value_or(*again), *again);
    co_return result;
  }

  Task<> make_children(ObjectPtr object, const Kind& kind, const std::string& reader, Plan& plan,
                       std::exception_ptr& failure, std::stop_token stop) {
    for (const Child& child : plan.children) {
      const NamespacedName key{object->meta.key.ns, std::string(json::string_at(child.object, {"metadata", "name"}))};
      watchers.note(reader, thing_of(*child.resource, key));
      try {
        const Outcome outcome = co_await children.ensure(child, stop);
        report(kind, *object, child, key, outcome, plan);
      } catch (const kube::Error& error) {
        failed(kind, *object, *child.resource, key, error, plan);
        failure = std::current_exception();
      }
    }
    for (const Unwanted& unwanted : plan.unwanted) {
      const NamespacedName key{object->meta.key.ns, unwanted.name};
      try {
        const Outcome outcome = co_await children.remove(*unwanted.resource, key, object->meta.uid.str(), stop);
        if (outcome == Outcome::kRemoved) {
          event(kind, *object, kube::EventType::kNormal, "DeleteSucceeded", "Delete",
                fmt::format("deleted {} {}", unwanted.resource->kind, unwanted.name));
        }
      } catch (const kube::Error& error) {
        event(kind, *object, kube::EventType::kWarning, "DeleteFailed", "Delete", error.what());
        failure = std::current_exception();
      }
    }
  }

  void report(const Kind& kind, const kube::DynamicObject& object, const Child& child, const NamespacedName& key,
              Outcome outcome, Plan& plan) {
    const std::string& what = child.resource->kind;
    switch (outcome) {
      case Outcome::kCreated:
        event(kind, object, kube::EventType::kNormal, "CreateSucceeded", "Create",
              fmt::format("created {} {}", what, key.name));
        return;
      case Outcome::kForeign:
        plan.faults.push_back({"NameTaken", fmt::format("{} {} is there already and does not belong to this {}; delete "
                                                        "or rename it",
                                                        what, key.name, kind.resource->kind)});
        return;
      case Outcome::kGoing:
        plan.wait(fmt::format("{} {} is being deleted", what, key.name));
        return;
      case Outcome::kNotServed:
        log::limited(log::Level::kInfo, 1min, "the cluster does not serve a kind that is asked for",
                     {{"kind", what}, {"object", key.str()}});
        return;
      default:
        return;
    }
  }

  void failed(const Kind& kind, const kube::DynamicObject& object, const kube::Resource& resource,
              const NamespacedName& key, const kube::Error& error, Plan& plan) {
    const bool there = parts.caches.get(resource, key) != nullptr;
    const std::string sentence = fmt::format("{} {}: {}", resource.kind, key.name, error.what());
    // What the API server refuses stays refused until a person acts; anything else passes.
    if (dynamic_cast<const kube::Invalid*>(&error) || dynamic_cast<const kube::Forbidden*>(&error)) {
      plan.faults.push_back({there ? "PatchFailed" : "CreateFailed", sentence});
    } else {
      plan.wait(sentence);
    }
    event(kind, object, kube::EventType::kWarning, there ? "PatchFailed" : "CreateFailed", there ? "Patch" : "Create",
          sentence);
  }

  Task<> make_host_keys(ObjectPtr object, const Kind& kind, Plan& plan, std::exception_ptr& failure,
                        std::stop_token stop) {
    const LoginSet set = read_loginset(object->value);
    const NamespacedName key{set.meta.ns, names::ssh_host_keys(set.meta.name)};
    try {
      // Made only when the API server itself has none: the cache may be late, and making them is dear.
      co_await parts.kube.get(kSecrets, key, {}, stop);
      co_return;
    } catch (const kube::NotFound&) {
    } catch (const kube::Error&) {
      failure = std::current_exception();
      co_return;
    }
    try {
      const StringMap keys = co_await options.make_host_keys();
      const Outcome outcome = co_await children.make_once({&kSecrets, login_host_keys(set, keys)}, stop);
      report(kind, *object, {&kSecrets, nullptr}, key, outcome, plan);
    } catch (const kube::Error& error) {
      failed(kind, *object, kSecrets, key, error, plan);
      failure = std::current_exception();
    }
  }

  // A slurmctld that never gets ready and is not as the StatefulSet says now: Kubernetes would wait for it for ever.
  Task<> replace_stale(ObjectPtr object, const Kind& kind, CachedView& view, Plan& plan, std::stop_token stop) {
    const std::string name = names::controller(object->meta.key.name);
    const json::Value* set = view.find(kStatefulSets, name);
    if (!set || !is_owned_by(*set, object->meta.uid.str())) co_return;
    std::vector<const json::Value*> pods;
    const std::int64_t count = json::int_at(*set, {"spec", "replicas"}).value_or(1);
    for (std::int64_t i = 0; i < count; ++i) {
      const json::Value* pod = view.find(kube::resources::kPods, names::controller_pod(object->meta.key.name, i));
      if (pod && is_owned_by(*pod, std::string(json::string_at(*set, {"metadata", "uid"})))) pods.push_back(pod);
    }
    const StalePlan stale = plan_stale_pod(*set, pods, loop.wall());
    if (stale.wake) plan.wake = std::min(plan.wake.value_or(*stale.wake), *stale.wake);
    if (!stale.remove) co_return;
    require_turn();
    try {
      co_await parts.kube.remove(kube::resources::kPods, {object->meta.key.ns, stale.remove->name},
                                 {.uid = Uid{stale.remove->uid}}, stop);
      event(kind, *object, kube::EventType::kNormal, "DeleteSucceeded", "Delete",
            fmt::format("deleted pod {}, which was not ready and not as it is wanted now", stale.remove->name));
    } catch (const kube::NotFound&) {
    } catch (const kube::Error& error) {
      log::limited(log::Level::kWarning, 10s, "a slurmctld that is not ready cannot be replaced",
                   {{"pod", stale.remove->name}, {"why", error}});
      plan.wake = loop.wall() + 10s;
    }
  }

  // The label by which the Service finds the slurmctld that serves. How soon to look again; nullopt: when woken.
  Task<std::optional<Duration>> mark_active(ObjectPtr object, CachedView& view, std::stop_token stop) {
    constexpr Duration kLookAgain = 10s;
    constexpr Duration kLookAgainSoon = 2s;  // a backup serves, and gives back when its elder returns
    std::optional<Controller> controller;
    try {
      controller = read_controller(object->value);
    } catch (const BadObject&) {
      co_return std::nullopt;
    }
    if (controller->external) co_return std::nullopt;
    const std::int64_t count = replicas(*controller);
    bool at_rest = false;
    std::optional<std::vector<std::string>> answering;
    if (count > 1 && options.answering) answering = co_await options.answering(object->meta.key, stop);
    try {
      std::vector<CtldPod> pods;
      for (std::int64_t i = 0; i < count; ++i) {
        const std::string name = names::controller_pod(controller->meta.name, i);
        const json::Value* pod = view.find(kube::resources::kPods, name);
        if (pod == nullptr) continue;
        pods.push_back({name, std::string(json::string_at(*pod, {"metadata", "uid"})),
                        json::string_at(*pod, {"metadata", "labels", names::kActive}) == "true"});
        at_rest = at_rest || (i == 0 && pods.back().active);
      }
      for (const LabelChange& change : plan_active_label(*controller, pods, answering)) {
        co_await label(object->meta.key.ns, change, stop);
      }
    } catch (const kube::Error& error) {
      log::limited(log::Level::kWarning, 10s, "the slurmctld that serves cannot be labelled",
                   {{"controller", object->meta.key.str()}, {"why", error}});
      co_return kLookAgain;
    }
    if (count > 1) co_return at_rest ? kLookAgain : kLookAgainSoon;
    co_return std::nullopt;
  }

  Task<> label(std::string ns, LabelChange change, std::stop_token stop) {
    require_turn();
    json::Object labels{{names::kActive, change.active ? json::Value("true") : json::Value(nullptr)}};
    json::Value patch = json::Object{{"metadata", json::Object{{"uid", change.uid}, {"labels", std::move(labels)}}}};
    try {
      co_await parts.kube.patch(kube::resources::kPods, {std::move(ns), change.pod}, kube::PatchType::kMerge,
                                std::move(patch), {}, {.field_manager = std::string(kFieldManager)}, stop);
    } catch (const kube::NotFound&) {
      co_return;  // it went meanwhile; its successor wakes us
    } catch (const kube::Conflict&) {
      co_return;  // another of its name
    }
    log::info(change.active ? "slurmctld serves" : "slurmctld no longer serves", {{"pod", change.pod}});
  }

  // --- what people see ---------------------------------------------------------------------------------------------

  void event(const Kind& kind, const kube::DynamicObject& object, kube::EventType type, std::string_view reason,
             std::string_view action, std::string note) {
    parts.events.record({kind.resource->api_version(), kind.resource->kind, object.meta.key, object.meta.uid}, type,
                        reason, action, std::move(note));
  }

  // What is new of it; what holds on is not told again.
  void tell(const Kind& kind, const kube::DynamicObject& object, const std::string& reader, const Plan& plan) {
    std::set<std::string> now;
    std::set<std::string>& said = memory[reader].said;
    const auto say = [&](const std::string& reason, const std::string& sentence) {
      now.insert(reason + sentence);
      if (!said.contains(reason + sentence)) event(kind, object, kube::EventType::kWarning, reason, "Sync", sentence);
    };
    for (const Fault& fault : plan.faults) {
      // Those two were told when they happened.
      if (fault.reason != "PatchFailed" && fault.reason != "CreateFailed") say("SyncFailed", fault.sentence);
    }
    for (const Wait& wait : plan.waits) {
      if (!wait.event.empty()) say(wait.event, wait.sentence);
    }
    said = std::move(now);
  }

  Task<> write_status(ObjectPtr object, const Kind& kind, const std::string& reader, const Plan& plan,
                      std::stop_token stop) {
    const json::Value* cached = json::find(object->value, {"status"});
    Memory& mine = memory[reader];
    // The cache may not have seen our own last word yet.
    const bool late = !mine.status_before.empty() && mine.status_before == object->meta.resource_version;
    const json::Value old = late ? mine.status : (cached ? *cached : json::Value(json::Object()));
    json::Object status = make_status(plan, object->meta.generation, old, loop.wall());
    if (!status_differs(status, old)) co_return;
    json::Value patch = json::Object{{"apiVersion", kind.resource->api_version()},
                                     {"kind", kind.resource->kind},
                                     {"metadata", json::Object{{"name", object->meta.key.name},
                                                               {"namespace", object->meta.key.ns},
                                                               {"uid", object->meta.uid.str()}}},
                                     {"status", status}};
    require_turn();
    try {
      co_await parts.kube.patch(*kind.resource, object->meta.key, kube::PatchType::kApply, std::move(patch), "status",
                                {.field_manager = std::string(kFieldManager), .force = true}, stop);
    } catch (const kube::NotFound&) {
      co_return;
    } catch (const kube::Conflict&) {
      co_return;  // another object of its name; its own visit comes
    }
    Memory& again = memory[reader];
    again.status_before = object->meta.resource_version;
    again.status = std::move(status);
  }
};

Reconcilers::Reconcilers(Parts parts, ReconcileOptions options)
    : impl_(std::make_unique<Impl>(parts, std::move(options))) {}
Reconcilers::~Reconcilers() = default;
void Reconcilers::start() {
  for (const auto& queue : impl_->queues) queue->start();
}
Task<> Reconcilers::stop() {
  for (const auto& queue : impl_->queues) co_await queue->stop();
}

}  // namespace bascule::op::reconcile

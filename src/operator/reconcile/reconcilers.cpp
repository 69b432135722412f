#include "operator/reconcile/reconcilers.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <random>
#include <stdexcept>

#include "base/log.hpp"
#include "kube/condition.hpp"
#include "operator/api/derived.hpp"
#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/builders/loginset.hpp"
#include "operator/config/slurm_conf.hpp"
#include "operator/reconcile/cached_view.hpp"
#include "operator/reconcile/children.hpp"
#include "operator/reconcile/ctld_pods.hpp"
#include "operator/reconcile/jobs_at_risk.hpp"
#include "operator/reconcile/key_change.hpp"
#include "operator/reconcile/nodes_watch.hpp"
#include "operator/reconcile/refusals.hpp"
#include "operator/reconcile/state_claim.hpp"
#include "operator/reconcile/telling.hpp"
#include "operator/reconcile/watchers.hpp"
#include "runtime/controller.hpp"

namespace bascule::op::reconcile {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLastWord = 2s;  // of a slurmctld that is going
constexpr Duration kOwnTime = 30s;  // of one that has thousands of nodes and jobs to tell of

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

// Of a NodeSet's Slurm nodes; its own name when it cannot be read.
std::string feature_of(const kube::DynamicObject& node_set) try {
  return slurm_name(read_nodeset(node_set.value));
} catch (const BadObject&) {
  return node_set.meta.key.name;
}

// 0 of one that cannot be read.
std::int64_t asked_by(const ObjectPtr& node_set) try {
  return nodes_asked(read_nodeset(node_set->value));
} catch (const BadObject&) {
  return 0;
}

// Of one that cannot be read: what is not applied again is taken away, and the scale subresource needs it. Without a
// selector the API server refuses a LoginSet's status altogether.
json::Object status_kept(const Kind& kind, const kube::DynamicObject& object) {
  json::Object status;
  if (kind.resource == &kLoginSets) status["selector"] = selector_text(names::kLogin, object.meta.key.name);
  for (const std::string_view field : {"replicas", "selector", "issuedAt"}) {
    if (const json::Value* there = json::find(object.value, {"status", field})) status[field] = *there;
  }
  return status;
}

bool is_workload(const kube::Resource& resource) {
  return &resource == &kStatefulSets || &resource == &kDeployments;
}

std::string random_id() {
  std::random_device device;
  const auto word = [&device] { return (std::uint64_t{device()} << 32U) | device(); };
  const std::uint64_t a = word();
  const std::uint64_t b = word();
  return fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", a >> 32U, (a >> 16U) & 0xffffU, a & 0xfffU,
                     0x8000U | (b >> 48U & 0x3fffU), b & 0xffffffffffffU);
}

}  // namespace

struct Reconcilers::Impl {
  Impl(Parts p, ReconcileOptions o)
      : parts(p),
        loop(p.kube.loop()),
        options(std::move(o)),
        children(p.kube, p.caches, [this] { require_turn(); }),
        telling(p.kube, p.events, [this] { require_turn(); }),
        ctld_pods({.kube = p.kube,
                   .telling = telling,
                   .require_turn = [this] { require_turn(); },
                   .answering = options.answering,
                   .serves = options.serves}),
        config_watch(options.running_config),
        state_claims(p.kube),
        nodes_watch(
            loop,
            [this](NamespacedName controller, std::stop_token stop) {
              return nodes_stand(std::move(controller), std::move(stop));
            },
            [this](const NamespacedName& controller) { queues[0]->add(controller.str()); }),
        gate(loop) {
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
  Telling telling;
  CtldPods ctld_pods;
  ConfigWatch config_watch;
  StateClaims state_claims;
  NodesWatch nodes_watch;
  std::map<NamespacedName, std::optional<WrittenToken>> tokens;
  Refusals refusals;  // of Controllers: who serves must be seen while a child is refused
  Gate gate;          // of warnings
  std::stop_source stopping;
  std::array<std::unique_ptr<runtime::Controller>, kKinds.size()> queues;
  Watchers watchers;
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
    if (busy_status && before && after && only_status_changed(*before, *after)) {
      return node_set ? status_changed(before, after) : void();
    }
    const bool pod = &resource == &kube::resources::kPods;
    if (pod && before && after && serves_alike(*before, *after)) return;
    for (std::size_t i = 0; i < kKinds.size(); ++i) {
      if (kKinds[i].resource == &resource) queues[i]->add(key.str());
    }
    if (!after) children.forget(resource, key);
    if (&resource == &kControllers && before && !before->meta.deleted && (!after || after->meta.deleted)) {
      spawn(gate, warn(before));
    }
    wake(thing_of(resource, key));
    if (&resource == &kControllers) {
      if (before) wake(controllers_thing(accounting_of(*before)));
      if (after) wake(controllers_thing(accounting_of(*after)));
    }
    if (!node_set) return;
    if (before) wake(node_sets_thing(controller_of_node_set(*before)));
    if (after) wake(node_sets_thing(controller_of_node_set(*after)));
  }

  void status_changed(const ObjectPtr& before, const ObjectPtr& after) {
    if (has_workers(before->value) != has_workers(after->value)) wake(workers_thing(controller_of_node_set(*after)));
    room_changed(before, after);
  }

  // In DaemonSet mode only the status says how many nodes slurmctld must have room for.
  void room_changed(const ObjectPtr& before, const ObjectPtr& after) {
    const std::int64_t change = asked_by(after) - asked_by(before);
    if (change == 0) return;
    const NamespacedName controller = controller_of_node_set(*after);
    std::int64_t now = 0;
    for (const ObjectPtr& set : parts.caches.node_sets_of(controller)) now += asked_by(set);
    if (room_for(now) != room_for(now - change)) wake(node_sets_thing(controller));
  }

  // A Controller is deleted, and what runs under it is nobody's any longer: not in silence. slurmctld is going already:
  // it is asked at once.
  Task<> warn(ObjectPtr controller) {
    const NamespacedName key = controller->meta.key;
    std::vector<SetAtRisk> sets;
    for (const ObjectPtr& set : parts.caches.node_sets_of(key)) {
      sets.push_back({.name = set->meta.key.name,
                      .feature = feature_of(*set),
                      .pods = json::int_at(set->value, {"status", "replicas"}).value_or(0),
                      .allocated = json::int_at(set->value, {"status", "slurmAllocated"}).value_or(0)});
    }
    // One outside stays, with the nodes that it has from elsewhere.
    const bool outside = json::bool_at(controller->value, {"spec", "external"});
    if (outside && sets.empty()) co_return;
    std::optional<NodesNow> nodes;
    if (options.slurm_nodes) nodes = co_await options.slurm_nodes(key, kLastWord, stopping.get_token());
    const std::optional<std::string> risk = jobs_at_risk(sets, nodes, outside);
    if (!risk) co_return;
    log::warning("jobs are at risk", {{"controller", key.str()}, {"what", *risk}});
    telling.event(kControllers, *controller, kube::EventType::kWarning, "JobsAtRisk", "Delete", *risk);
  }

  // --- one object --------------------------------------------------------------------------------------------------

  Plan plan_of(const Kind& kind, const kube::DynamicObject& object, View& view) {
    try {
      if (kind.resource == &kControllers) {
        return plan_controller(object.value, view, loop.wall(), nodes_watch.last(object.meta.key));
      }
      if (kind.resource == &kAccountings) return plan_accounting(object.value, view);
      if (kind.resource == &kRestApis) return plan_restapi(object.value, view);
      if (kind.resource == &kLoginSets) return plan_loginset(object.value, view, options.domain);
      if (kind.resource == &kTokens) {
        return plan_token(object.value, view, random_id(), loop.wall(), tokens[object.meta.key]);
      }
      return plan_nodeset_files(object.value, view);
    } catch (const BadObject& error) {
      Plan plan;
      plan.faults.push_back({"BadSpec", error.what()});
      plan.status = status_kept(kind, object);
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
      telling.forget(reader);
      refusals.forget(reader);
      if (kind.resource == &kTokens) tokens.erase(name);
      if (kind.resource == &kControllers) forget_controller(name);
      co_return runtime::Result{};
    }
    // Its children go with it.
    if (object->meta.deleted) co_return runtime::Result{};
    watchers.begin(reader);
    CachedView view(parts.caches, watchers, reader, name.ns);
    if (kind.resource == &kControllers) {
      co_await look_at_conf(name, view, stop);
      co_await state_claims.look(object, view, stop);
    }
    Plan plan = plan_of(kind, *object, view);
    if (kind.resource == &kControllers) watch_nodes(name, reader, plan);
    std::exception_ptr failure;
    if (plan.needs_host_keys) co_await make_host_keys(object, kind, plan, failure, stop);
    std::optional<Duration> held = refusals.hold(reader, plan, loop.now());
    const std::size_t faults = plan.faults.size();
    const std::size_t waits = plan.waits.size();
    if (held) {
      for (const Child& child : plan.children) note_child(*object, reader, child);
    } else {
      co_await make_children(object, kind, reader, plan, failure, stop);
      if (!failure) refusals.forget(reader);
      if (!failure && kind.resource == &kTokens) tokens[name] = plan.token;
    }
    // Who serves is looked at all the same, in time.
    if (failure && kind.resource == &kControllers) {
      held = refusals.failed(reader, plan, faults, waits, loop.now());
      failure = nullptr;
      log::limited(log::Level::kWarning, 10s, "not all children are written", {{"controller", key}});
    }
    std::optional<Duration> again;
    if (kind.resource == &kControllers) {
      again = co_await ctld_pods.mark_active(object, view, stop);
      co_await ctld_pods.replace_stale(object, view, plan, stop);
      const std::optional<Duration> soon = co_await config_watch.look(object, plan, loop.wall(), stop);
      if (soon) again = std::min(again.value_or(*soon), *soon);
    }
    watchers.finish(reader);
    if (stop.stop_requested()) co_return runtime::Result{};
    wait_for_pods(name.ns, plan);
    telling.tell(*kind.resource, *object, reader, plan);
    if (kind.status) co_await telling.write_status(object, *kind.resource, reader, plan, stop);
    if (failure) std::rethrow_exception(failure);
    runtime::Result result;
    if (plan.wake) result.requeue_after = std::max<Duration>(*plan.wake - loop.wall(), 100ms);
    if (held) again = std::min(again.value_or(*held), *held);
    if (again) result.requeue_after = std::min(result.requeue_after.value_or(*again), *again);
    co_return result;
  }

  // What slurm.conf keeps is decided by the one in place. By one from before our own last write, lines that went would
  // come back, and slurmctld be made anew each time.
  Task<> look_at_conf(NamespacedName controller, CachedView& view, std::stop_token stop) {
    const NamespacedName key{controller.ns, names::config(controller.name)};
    if (!children.is_unseen(kConfigMaps, key)) co_return;
    try {
      view.put(kConfigMaps, key.name, co_await parts.kube.get(kConfigMaps, key, {}, stop));
    } catch (const kube::NotFound&) {
      view.put(kConfigMaps, key.name, {});
    }
  }

  void forget_controller(const NamespacedName& name) {
    config_watch.forget(name);
    state_claims.forget(name);
    nodes_watch.forget(name);
  }

  // What waits for the Slurm nodes.
  void watch_nodes(const NamespacedName& controller, const std::string& reader, Plan& plan) {
    if (!plan.key_wait && !plan.keeps_lines) return nodes_watch.let_go(controller);
    const ClusterStand stand = nodes_watch.look(controller);
    bool waits = plan.keeps_lines;
    if (plan.key_wait) {
      watchers.note(reader, workers_thing(controller));
      std::vector<std::string> beside;
      for (const KeyWait::Beside& other : plan.key_wait->beside) {
        const NodesStand theirs = nodes_watch.look({controller.ns, other.controller}).nodes();
        if (holds_key(theirs, other.workers)) beside.push_back(other.controller);
      }
      waits = hold_key(plan, stand.nodes(), beside) || waits;
    }
    if (!waits) return;
    const WallTime again = loop.wall() + NodesWatch::kAgain;
    plan.wake = std::min(plan.wake.value_or(again), again);
  }

  Task<ClusterStand> nodes_stand(NamespacedName controller, std::stop_token stop) {
    std::optional<NodesNow> nodes;
    if (options.slurm_nodes) nodes = co_await options.slurm_nodes(controller, kOwnTime, stop);
    co_return stand_of(nodes);
  }

  NamespacedName note_child(const kube::DynamicObject& object, const std::string& reader, const Child& child) {
    NamespacedName key{object.meta.key.ns, std::string(json::string_at(child.object, {"metadata", "name"}))};
    watchers.note(reader, thing_of(*child.resource, key));
    return key;
  }

  Task<> make_children(ObjectPtr object, const Kind& kind, const std::string& reader, Plan& plan,
                       std::exception_ptr& failure, std::stop_token stop) {
    bool files_stand = true;
    for (const Child& child : plan.children) {
      const NamespacedName key = note_child(*object, reader, child);
      const bool files = child.resource == &kConfigMaps || child.resource == &kSecrets;
      // A workload carries the hash of the files it is to have: started with the old ones, it would keep them.
      if (!files_stand && is_workload(*child.resource)) continue;
      try {
        const Outcome outcome = co_await children.ensure(child, stop);
        report(kind, *object, child, key, outcome, plan);
        if (files && (outcome == Outcome::kForeign || outcome == Outcome::kGoing)) files_stand = false;
      } catch (const kube::Error& error) {
        failed(kind, *object, *child.resource, key, error, plan);
        failure = std::current_exception();
        if (files) files_stand = false;
      }
    }
    for (const Unwanted& unwanted : plan.unwanted) {
      const NamespacedName key{object->meta.key.ns, unwanted.name};
      try {
        const Outcome outcome = co_await children.remove(*unwanted.resource, key, object->meta.uid.str(), stop);
        if (outcome == Outcome::kRemoved) {
          telling.event(*kind.resource, *object, kube::EventType::kNormal, "DeleteSucceeded", "Delete",
                        fmt::format("deleted {} {}", unwanted.resource->kind, unwanted.name),
                        child_at(*unwanted.resource, key));
        }
      } catch (const kube::Error& error) {
        telling.event(*kind.resource, *object, kube::EventType::kWarning, "DeleteFailed", "Delete", error.what(),
                      child_at(*unwanted.resource, key));
        failure = std::current_exception();
      }
    }
  }

  // The plan read the status of workloads before they were written; the cache may show the write by now, or not yet.
  void wait_for_pods(const std::string& ns, Plan& plan) const {
    for (const Child& child : plan.children) {
      const kube::Resource& resource = *child.resource;
      if (!is_workload(resource) || !plan.waits.empty()) continue;
      const NamespacedName key{ns, std::string(json::string_at(child.object, {"metadata", "name"}))};
      const ObjectPtr cached = parts.caches.get(resource, key);
      auto wait = workload_wait(resource, key.name, cached ? &cached->value : nullptr);
      if (children.is_unseen(resource, key)) wait = pods_follow(resource, key.name);
      if (wait) plan.wait(*std::move(wait));
    }
  }

  // For events; without its uid when the cache has not seen it.
  kube::ObjectReference child_at(const kube::Resource& resource, const NamespacedName& key) const {
    const ObjectPtr cached = parts.caches.get(resource, key);
    return {resource.api_version(), resource.kind, key, cached ? cached->meta.uid : Uid()};
  }

  void report(const Kind& kind, const kube::DynamicObject& object, const Child& child, const NamespacedName& key,
              Outcome outcome, Plan& plan) {
    const std::string& what = child.resource->kind;
    switch (outcome) {
      case Outcome::kCreated:
        telling.event(*kind.resource, object, kube::EventType::kNormal, "CreateSucceeded", "Create",
                      fmt::format("created {} {}", what, key.name), child_at(*child.resource, key));
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
    if (dynamic_cast<const kube::Refused*>(&error)) {
      plan.faults.push_back({there ? "PatchFailed" : "CreateFailed", sentence});
    } else {
      plan.wait(sentence);
    }
    telling.event(*kind.resource, object, kube::EventType::kWarning, there ? "PatchFailed" : "CreateFailed",
                  there ? "Patch" : "Create", sentence, child_at(resource, key));
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
};

Reconcilers::Reconcilers(Parts parts, ReconcileOptions options)
    : impl_(std::make_unique<Impl>(parts, std::move(options))) {}
Reconcilers::~Reconcilers() = default;
void Reconcilers::start() {
  for (const auto& queue : impl_->queues) queue->start();
}
Task<> Reconcilers::stop() {
  impl_->stopping.request_stop();
  co_await impl_->gate.close();
  co_await impl_->nodes_watch.stop();
  for (const auto& queue : impl_->queues) co_await queue->stop();
}

}  // namespace bascule::op::reconcile

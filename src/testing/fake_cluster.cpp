// Kubelets, pod garbage collection, heartbeats, and the clock of all steps.
#include "testing/fake_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/time.hpp"
#include "testing/fake_api_rules.hpp"

namespace bascule::testing {

using json::Array;
using json::Object;
using json::Value;

FakeCluster::FakeCluster(FakeApi& api, FakeClusterOptions options)
    : api_(api), loop_(api.loop()), options_(options), gate_(loop_) {}

FakeCluster::~FakeCluster() {
  BASCULE_CHECK(timer_ == 0, "a cluster is stopped before it dies");
}

void FakeCluster::start() {
  if (timer_ == 0) arm();
}

void FakeCluster::arm() {
  timer_ = loop_.call_at(loop_.now() + options_.tick, [this] {
    step();
    arm();
  });
}

Task<> FakeCluster::stop() {
  if (timer_ != 0) loop_.cancel(std::exchange(timer_, 0));
  co_await gate_.close();
}

void FakeCluster::step() {
  heartbeats();
  if (!waiting_ && looked_at_ == api_.store().version()) return;
  waiting_ = false;
  kubelets();
  jobs();
  garbage();
  pod_garbage();
  if (claim_controller_) resource_claims();
  namespaces();
  looked_at_ = api_.store().version();
}

TimePoint FakeCluster::since(const std::string& what) {
  waiting_ = true;
  return seen_.try_emplace(what, loop_.now()).first->second;
}

void FakeCluster::write(ApiTable& table, const ObjectPtr& before, Value after, std::string_view subresource) {
  api_.writer().commit({.table = &table,
                        .before = before,
                        .after = std::move(after),
                        .subresource = std::string(subresource),
                        .context = {.manager = "cluster"},
                        .applied = false});
}

void FakeCluster::drop_finalizer(ApiTable& table, const ObjectPtr& object, std::string_view finalizer) {
  Value after = object->value;
  Array left;
  for (const std::string& f : finalizers_of(after)) {
    if (f != finalizer) left.emplace_back(f);
  }
  if (left.empty()) {
    after.at("metadata").get_object().stable_erase("finalizers");
  } else {
    after.at("metadata").get_object()["finalizers"] = std::move(left);
  }
  write(table, object, std::move(after), "");
}

// --- kubelets --------------------------------------------------------------------------------------------------------

void FakeCluster::kubelets() {
  for (const ObjectPtr& pod : api_.store().table(kube::resources::kPods).list("")) kubelet_of(pod);
}

namespace {

bool terminal(const Value& pod) {
  const std::string_view phase = json::string_at(pod, {"status", "phase"});
  return phase == "Succeeded" || phase == "Failed";
}

Value running(const Value& pod, WallTime now) {
  Value out = pod;
  Value& status = json::at_or_create(out, {"status"});
  Object& s = status.get_object();
  s["phase"] = "Running";
  s["startTime"] = print_rfc3339(now);
  s["podIP"] = "10.1.0.1";
  Array containers;
  if (const Array* list = json::array_at(pod, {"spec", "containers"})) {
    for (const Value& c : *list) {
      containers.push_back(Object{{"name", json::string_at(c, {"name"})},
                                  {"ready", true},
                                  {"restartCount", 0},
                                  {"state", Object{{"running", Object{{"startedAt", print_rfc3339(now)}}}}}});
    }
  }
  s["containerStatuses"] = std::move(containers);
  for (const char* type : {"Initialized", "ContainersReady", "Ready"}) set_condition(out, type, "True", "", "", now);
  return out;
}

std::optional<Duration> run_time(const Value& pod, Duration usual) {
  const std::string_view said = json::string_at(pod, {"metadata", "annotations", "fake/run-for"});
  if (said.empty()) return usual;
  std::int64_t seconds = 0;
  if (std::from_chars(said.data(), said.data() + said.size(), seconds).ec != std::errc()) return std::nullopt;
  return std::chrono::seconds(seconds);
}

}  // namespace

void FakeCluster::finish_pod(const ObjectPtr& pod, bool failed, std::string_view reason) {
  Value after = pod->value;
  Object& status = json::at_or_create(after, {"status"}).get_object();
  status["phase"] = failed ? "Failed" : "Succeeded";
  if (!reason.empty()) status["reason"] = reason;
  for (const char* type : {"ContainersReady", "Ready"}) {
    set_condition(after, type, "False", failed ? "PodFailed" : "PodCompleted", "", loop_.wall());
  }
  write(api_.store().table(kube::resources::kPods), pod, std::move(after), "status");
}

void FakeCluster::kubelet_of(const ObjectPtr& pod) {
  const Value& value = pod->value;
  const std::string node(json::string_at(value, {"spec", "nodeName"}));
  if (node.empty() || dead_nodes_.contains(node)) return;
  if (!api_.store().table(kube::resources::kNodes).find("", node)) return;
  const std::string uid(uid_of(value));
  if (deleting(value)) {
    const auto grace = json::int_at(value, {"metadata", "deletionGracePeriodSeconds"}).value_or(30);
    const Duration takes = std::min<Duration>(options_.pod_stop, std::chrono::seconds(grace));
    if (!terminal(value)) {
      if (loop_.now() - since("stop " + uid) < takes) return;
      return finish_pod(pod, true, "");
    }
    if (grace == 0) return;  // finalizers hold it
    api_.writer().remove(api_.store().table(kube::resources::kPods), ns_of(value), name_of(value),
                         {.uid = uid, .version = std::nullopt, .grace = 0}, false);
    seen_.erase("stop " + uid);
    return;
  }
  if (terminal(value)) return;
  const std::string_view phase = json::string_at(value, {"status", "phase"});
  if (phase == "Pending") {
    if (loop_.now() - since("bound " + uid) < options_.pod_start) return;
    seen_.erase("bound " + uid);
    write(api_.store().table(kube::resources::kPods), pod, running(value, loop_.wall()), "status");
    since("run " + uid);
    return;
  }
  const auto limit = json::int_at(value, {"spec", "activeDeadlineSeconds"});
  const auto takes = run_time(value, options_.pod_run);
  const bool restarts = json::string_at(value, {"spec", "restartPolicy"}) == "Always";
  const bool for_ever = !takes || restarts;
  if (for_ever && !limit) return;  // of thousands of such pods none keeps the clock of steps awake
  const Duration ran = loop_.now() - since("run " + uid);
  if (limit && ran >= std::chrono::seconds(*limit)) return finish_pod(pod, true, "DeadlineExceeded");
  if (for_ever || ran < *takes) return;
  seen_.erase("run " + uid);
  finish_pod(pod, json::string_at(value, {"metadata", "annotations", "fake/exit"}, "0") != "0", "");
}

void FakeCluster::set_node_alive(const std::string& node, bool alive) {
  alive ? void(dead_nodes_.erase(node)) : void(dead_nodes_.insert(node));
  ApiTable& nodes = api_.store().table(kube::resources::kNodes);
  const ObjectPtr found = nodes.find("", node);
  if (!found) return;
  Value after = found->value;
  set_condition(after, "Ready", alive ? "True" : "Unknown", alive ? "KubeletReady" : "NodeStatusUnknown",
                alive ? "kubelet is posting ready status" : "Kubelet stopped posting node status.", loop_.wall());
  write(nodes, found, std::move(after), "status");
  waiting_ = true;
}

// --- pod garbage, heartbeats -----------------------------------------------------------------------------------------

void FakeCluster::pod_garbage() {
  ApiTable& pods = api_.store().table(kube::resources::kPods);
  ApiTable& nodes = api_.store().table(kube::resources::kNodes);
  for (const ObjectPtr& pod : pods.list("")) {
    const std::string node(json::string_at(pod->value, {"spec", "nodeName"}));
    if (node.empty()) continue;  // the API server ends those itself
    const std::string mark = "missing " + std::string(uid_of(pod->value));
    if (nodes.find("", node)) {
      if (!seen_.empty()) seen_.erase(mark);
      continue;
    }
    if (loop_.now() - since(mark) < options_.missing_node) continue;
    if (!terminal(pod->value)) {
      finish_pod(pod, true, "");
      continue;
    }
    // Also those that are being deleted: nobody else will confirm that they are over.
    if (!deleting(pod->value) ||
        json::int_at(pod->value, {"metadata", "deletionGracePeriodSeconds"}).value_or(30) > 0) {
      api_.writer().remove(pods, ns_of(pod->value), name_of(pod->value),
                           {.uid = std::nullopt, .version = std::nullopt, .grace = 0}, false);
      seen_.erase(mark);
    }
  }
}

void FakeCluster::heartbeats() {
  if (!options_.heartbeats) return;
  const auto last = seen_.find("heartbeat");
  if (last != seen_.end() && loop_.now() - last->second < std::chrono::seconds(10)) return;
  seen_["heartbeat"] = loop_.now();
  for (const ObjectPtr& node : api_.store().table(kube::resources::kNodes).list("")) {
    const std::string name(name_of(node->value));
    if (dead_nodes_.contains(name)) continue;
    const Value spec =
        Object{{"holderIdentity", name}, {"leaseDurationSeconds", 40}, {"renewTime", print_rfc3339(loop_.wall(), 6)}};
    if (api_.get(kube::resources::kLeases, {"kube-node-lease", name})) {
      api_.patch(kube::resources::kLeases, {"kube-node-lease", name}, Object{{"spec", spec}});
    } else {
      api_.create(kube::resources::kLeases,
                  Object{{"metadata", Object{{"name", name}, {"namespace", "kube-node-lease"}}}, {"spec", spec}});
    }
  }
}

// --- resource claims -------------------------------------------------------------------------------------------------

void FakeCluster::resource_claims() {
  for (ApiTable* table : api_.store().tables()) {
    if (table->resource.name.kind != "ResourceClaim") continue;
    for (const ObjectPtr& claim : table->list("")) sync_claim(*table, claim);
  }
}

void FakeCluster::sync_claim(ApiTable& table, const ObjectPtr& claim) {
  constexpr std::string_view kProtection = "resource.kubernetes.io/delete-protection";
  const std::string ns(ns_of(claim->value));
  const ApiTable& pods = api_.store().table(kube::resources::kPods);
  const auto done = [&](std::string_view name, std::string_view uid) {
    const ObjectPtr pod = pods.find(ns, std::string(name));
    if (!pod || uid_of(pod->value) != uid) return true;
    return terminal(pod->value) || (deleting(pod->value) && json::string_at(pod->value, {"spec", "nodeName"}).empty());
  };
  const Array* reserved = json::array_at(claim->value, {"status", "reservedFor"});
  Array remaining;
  for (std::size_t i = 0; reserved != nullptr && i < reserved->size(); ++i) {
    const Value& one = (*reserved)[i];
    if (!done(json::string_at(one, {"name"}), json::string_at(one, {"uid"}))) remaining.push_back(one);
  }
  if (!remaining.empty()) return;
  const bool released = reserved != nullptr && !reserved->empty();
  const auto finalizers = finalizers_of(claim->value);
  const bool protecting = std::ranges::find(finalizers, kProtection) != finalizers.end();
  ObjectPtr now = claim;
  if (released || (protecting && deleting(claim->value))) {
    Value after = claim->value;
    json::at_or_create(after, {"status", "reservedFor"}) = Array{};
    if (protecting) after.at("status").get_object().stable_erase("allocation");
    write(table, claim, std::move(after), "status");
    now = table.find(ns, name_of(claim->value));
    if (now && protecting) drop_finalizer(table, now, kProtection);
  }
  const Array* owners = json::array_at(claim->value, {"metadata", "ownerReferences"});
  if (owners == nullptr || owners->empty() || deleting(claim->value)) return;
  const Value& owner = owners->front();
  if (json::string_at(owner, {"kind"}) == "Pod" &&
      done(json::string_at(owner, {"name"}), json::string_at(owner, {"uid"}))) {
    api_.writer().remove(table, ns, name_of(claim->value), {.propagation = "Background"}, false);
  }
}

}  // namespace bascule::testing

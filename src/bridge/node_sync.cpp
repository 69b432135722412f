#include "bridge/node_sync.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>

#include "base/log.hpp"
#include "base/time.hpp"
#include "bridge/bridge_metrics.hpp"
#include "bridge/names.hpp"
#include "bridge/node_condition.hpp"
#include "bridge/node_pods.hpp"
#include "bridge/pace.hpp"
#include "runtime/controller.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

namespace {

using namespace std::chrono_literals;

// Partitions change rarely, and only by an administrator.
constexpr Duration kPartitionsAge = std::chrono::seconds(60);
// Nodes drained at once to be registered anew with another size.
constexpr std::size_t kMaxReshaping = 1;
constexpr Duration kTurnLook = 1s;
constexpr std::int32_t kAlreadyExists = 2168;
constexpr int kRounds = 2;

// Ours set or taken away, by its place in the list: taints have no merge key, and what we do not read of the others
// (timeAdded) must stay. The version makes places valid; a node changed meanwhile is a Conflict.
json::Array taint_patch(const kube::Node& node, const std::string& scheduler, bool set) {
  json::Array patch;
  const auto op = [&patch](std::string_view what, std::string path) -> json::Object& {
    return patch.emplace_back(json::Object{{"op", what}, {"path", std::move(path)}}).as_object();
  };
  op("replace", "/metadata/resourceVersion")["value"] = node.meta.resource_version;
  const kube::Taint* ours = managed_taint(node);
  const std::string place = ours == nullptr ? "" : fmt::format("/spec/taints/{}", ours - node.taints.data());
  if (!set) {
    if (ours != nullptr) op("remove", place);
  } else if (ours != nullptr) {
    op("add", place + "/value")["value"] = scheduler;
  } else {
    json::Object taint{{"key", names::kManagedNodeTaint}, {"value", scheduler}, {"effect", "NoExecute"}};
    const bool first = node.taints.empty();
    json::Value& value = op("add", first ? "/spec/taints" : "/spec/taints/-")["value"];
    value = first ? json::Value(json::Array{std::move(taint)}) : json::Value(std::move(taint));
  }
  return patch;
}

}  // namespace

struct NodeSync::Impl {
  Impl(Parts p, const Config& c, Identity s, std::size_t workers)
      : parts(p),
        loop(p.kube.loop()),
        config(c),
        self(std::move(s)),
        node_pods(c.scheduler_name),
        counters(p.metrics),
        controller(
            loop, {.name = "node-controller", .workers = workers, .pauses = {.longest = kLongestPause}},
            [this](std::string key, std::stop_token stop) { return reconcile(std::move(key), std::move(stop)); },
            p.metrics) {
    parts.nodes.on_change([this](const NodePtr& before, const NodePtr& after) {
      if (before) take_out(before);
      if (after) by_slurm_name[slurm_name_of(*after)].push_back(after);
      if (before) controller.add(slurm_name_of(*before));
      if (after) controller.add(slurm_name_of(*after));
    });
    parts.mirror.on_node([this](const slurm::ClusterMirror::NodeChange& change) {
      const std::string& name = change.after ? change.after->name : change.before->name;
      const bool reshapes = change.after && is_reshaping(*change.after);
      reshapes ? (void)reshaping.insert(name) : (void)reshaping.erase(name);
      controller.add(name);
    });
    parts.mirror.on_health([this](bool) { all_again(); });
    if (parts.pods != nullptr) {
      parts.pods->on_change([this](const PodPtr& before, const PodPtr& after) {
        for (const std::string& kube_node : node_pods.on_pod(before, after)) again(kube_node);
      });
    }
    if (parts.devices == nullptr) return;
    parts.devices->on_node = [this](const std::string& kube_node) {
      kube_node.empty() ? all_again() : again(kube_node);
    };
  }

  Parts parts;
  Loop& loop;
  const Config& config;
  Identity self;
  NodePods node_pods;
  NodeSyncCounters counters;
  runtime::Controller controller;
  std::map<std::string, std::vector<NodePtr>> by_slurm_name;
  std::map<std::string, NodeMemory> memory;
  std::map<std::string, std::set<std::string>> said;  // by node, what its events last told
  std::set<std::string> partitions;
  std::optional<TimePoint> partitions_at;
  std::set<std::string> reshaping;

  void take_out(const NodePtr& node) {
    const auto found = by_slurm_name.find(slurm_name_of(*node));
    if (found == by_slurm_name.end()) return;
    std::erase_if(found->second, [&](const NodePtr& n) { return n->meta.uid == node->meta.uid; });
    if (found->second.empty()) by_slurm_name.erase(found);
  }
  void again(const std::string& kube_node) {
    const NodePtr node = parts.nodes.get({"", kube_node});
    if (node) controller.add(slurm_name_of(*node));
  }
  void all_again() {
    for (const auto& [name, nodes] : by_slurm_name) controller.add(name);
    for (const auto& [name, node] : parts.mirror.nodes()) controller.add(name);
  }

  NodeSides sides_of(const std::string& name) const {
    const auto nodes = by_slurm_name.find(name);
    NodeSides sides;
    sides.slurm_name = name;
    if (nodes != by_slurm_name.end()) sides.nodes = nodes->second;
    sides.nodes_known = parts.nodes.synced();
    sides.slurm_known = parts.mirror.nodes_synced() && parts.mirror.reachable();
    sides.slurm = parts.mirror.node(name);
    sides.slurm_has_nodes = !parts.mirror.nodes().empty();
    if (partitions_at && loop.now() - *partitions_at <= kPartitionsAge) sides.partitions = &partitions;
    if (sides.nodes.size() == 1) {
      const std::string& kube_node = sides.nodes.front()->meta.key.name;
      sides.worker = node_pods.first(kube_node, NodePod::Why::kWorker);
      sides.adrift = node_pods.first(kube_node, NodePod::Why::kAdrift);
    }
    if (parts.devices != nullptr && sides.nodes.size() == 1) {
      sides.devices = parts.devices->on(sides.nodes.front()->meta.key.name);
      if (!parts.devices->unknown().empty()) sides.devices.unknown = parts.devices->unknown();
    }
    sides.may_reshape = may_reshape(name);
    sides.jobs_known = parts.mirror.synced();
    sides.required_by = parts.mirror.job_that_requires(name);
    if (sides.slurm) {
      sides.drain_listed = sides.slurm->states.has(slurm::NodeFlag::kDrain);
      if (looks_stranded(*sides.slurm)) sides.allocated_to = allocated_to(name);
    }
    if (sides.nodes.size() == 1 && !sides.slurm) sides.leaving = leaving_as(*sides.nodes.front());
    return sides;
  }
  // A job that has not ended and has the node, by the last table.
  std::optional<JobId> allocated_to(const std::string& name) const {
    for (const auto& [id, job] : parts.mirror.jobs()) {
      if (!job->states.ended() && slurm::hostlist_contains(job->nodes, name).value_or(true)) return id;
    }
    return std::nullopt;
  }
  // Ours alone: one of another cluster, or of a bridge that is no more, may stay so for as long as its jobs run.
  bool is_reshaping(const slurm::Node& node) const {
    if (!node.states.has(slurm::NodeFlag::kDrain) || !is_reshape_reason(node.reason)) return false;
    const auto mark = parse_mark(node.extra);
    return mark && mark->cluster == self.cluster;
  }
  bool may_reshape(const std::string& name) const {
    return reshaping.contains(name) || reshaping.size() < kMaxReshaping;
  }
  // The name under which the node is still in Slurm: of a node of ours with its address, whose name no node has now.
  std::string leaving_as(const kube::Node& node) const {
    if (node.internal_ip.empty()) return {};
    for (const auto& [name, known] : parts.mirror.nodes()) {
      if (known->address != node.internal_ip || by_slurm_name.contains(name)) continue;
      const auto mark = parse_mark(known->extra);
      if (known->states.has(slurm::NodeFlag::kExternal) && mark && mark->cluster == self.cluster) return name;
    }
    return {};
  }

  NodePlan plan_of(const std::string& name, const NodeSides& sides) {
    return plan_node(config, self, sides, memory[name], loop.now());
  }

  Task<runtime::Result> reconcile(std::string name, std::stop_token stop) {
    runtime::Result result;
    NodePlan plan = plan_of(name, sides_of(name));
    if (plan.need_partitions) {
      co_await read_partitions(stop);
      plan = plan_of(name, sides_of(name));
    }
    tell(name, plan);
    // The mirror may be some seconds behind: before anything is done Slurm is asked about this node, and once more
    // after, since what was done may make the next step possible (a node just added takes the taint).
    bool wrote = false;
    std::exception_ptr refused;
    for (int round = 0; round < kRounds && (wrote || plan.acts()); ++round) {
      NodeSides sides = sides_of(name);
      // What cannot be a name is not in Slurm, and asking would be asking something else.
      if (is_plain_node_name(name)) sides.slurm = fresh(sides.slurm, co_await parts.slurm.get_node(name, stop));
      plan = plan_of(name, sides);
      if (!plan.acts()) break;
      tell(name, plan);
      wrote = wrote || plan.writes_slurm();
      try {
        co_await act(name, plan, stop);
      } catch (const slurm::Refused& error) {
        record(name, {kube::EventType::kWarning, "SlurmRefused", error.what()});
        refused = std::current_exception();
      }
      if (refused || plan.taint) break;
    }
    co_await tell_condition(name, stop);
    if (wrote) parts.mirror.poke_nodes();
    if (refused) std::rethrow_exception(refused);  // to be tried again, ever less often
    if (!parts.mirror.nodes_synced() || plan.need_partitions) {
      result.requeue_after = 1s;
    } else if (plan.wake) {
      result.requeue_after = std::max<Duration>(*plan.wake - loop.now(), 10ms);
    }
    if (plan.idle() && !by_slurm_name.contains(name) && parts.mirror.nodes_synced() && !parts.mirror.node(name)) {
      memory.erase(name);
      said.erase(name);
    }
    co_return result;
  }

  // A direct answer is right about flags, reason, features and whether it is down, and late about what is allocated; a
  // list is right about that.
  static std::shared_ptr<const slurm::Node> fresh(const std::shared_ptr<const slurm::Node>& listed,
                                                  std::optional<slurm::Node> answer) {
    if (!answer) return nullptr;
    if (listed) {
      const bool was_down = listed->states.base == slurm::NodeState::kDown;
      const bool is_down = answer->states.base == slurm::NodeState::kDown;
      if (was_down == is_down) answer->states.base = listed->states.base;
      answer->alloc_cpus = listed->alloc_cpus;
      answer->alloc_memory = listed->alloc_memory;
    }
    return std::make_shared<const slurm::Node>(std::move(*answer));
  }

  Task<> read_partitions(std::stop_token stop) {
    const std::vector<slurm::Partition> found = co_await parts.slurm.list_partitions(stop);
    partitions.clear();
    for (const slurm::Partition& partition : found) partitions.insert(partition.name);
    partitions_at = loop.now();
  }

  Task<> act(std::string name, NodePlan plan, std::stop_token stop) {
    if (plan.add && !co_await add(name, *plan.add, stop)) co_return;
    // What Slurm does not want to know of a node, as its topology, keeps nobody from draining or tainting it.
    std::exception_ptr refused;
    if (plan.update) {
      parts.must_lead();
      try {
        co_await parts.slurm.update_node(name, *plan.update, stop);
        log::info("Slurm node updated", {{"node", name}});
      } catch (const slurm::Unreachable&) {
        throw;
      } catch (const slurm::Error&) {
        refused = std::current_exception();
      }
    }
    if (plan.state) co_await change_state(name, *plan.state, stop);
    if (plan.remove) co_await remove(name, plan.anew, stop);
    if (plan.taint) co_await taint(name, *plan.taint, stop);
    if (refused) std::rethrow_exception(refused);
  }

  Task<> change_state(std::string name, slurm::NodeUpdate change, std::stop_token stop) {
    // It may have got a job since the last table, which would end with it.
    const bool frees = change.state == "DOWN";
    if (frees && !parts.mirror.listed_lately()) co_return controller.add_after(name, kTurnLook);
    parts.must_lead();
    // Counted from now on, so that others wait while this is under way; and others may have come first since the plan.
    if (is_reshape_reason(change.reason.value_or(""))) {
      const auto known = parts.mirror.node(name);
      if (known && !is_idle(*known) && !may_reshape(name)) co_return controller.add_after(name, kTurnLook);
      reshaping.insert(name);
    }
    try {
      co_await parts.slurm.update_node(name, change, stop);
    } catch (...) {
      const auto known = parts.mirror.node(name);
      if (!known || !is_reshaping(*known)) reshaping.erase(name);
      throw;
    }
    if (frees) counters.freed.add();
    log::info("Slurm node state changed",
              {{"node", name}, {"state", change.state.value_or("")}, {"reason", change.reason.value_or("")}});
  }

  // False: somebody has registered a node of that name meanwhile, and whose it is must be seen first.
  Task<bool> add(std::string name, std::string conf, std::stop_token stop) {
    parts.must_lead();
    try {
      co_await parts.slurm.add_node(std::move(conf), stop);
      log::info("Slurm node registered", {{"node", name}});
    } catch (const slurm::Refused& error) {
      if (error.number() != kAlreadyExists) throw;
      co_return false;
    }
    co_return true;
  }

  Task<> remove(std::string name, bool anew, std::stop_token stop) {
    // A job that came since the last table may require the node.
    if (!anew && !parts.mirror.listed_lately()) co_return controller.add_after(name, kTurnLook);
    parts.must_lead();
    try {
      co_await parts.slurm.delete_node(name, stop);
      log::info("Slurm node removed", {{"node", name}});
    } catch (const slurm::NotFound&) {
    } catch (const slurm::Busy& error) {
      // A job ends there at this moment, or a reservation has begun; nothing that Slurm tells of the node need change
      // when that is over.
      log::info("Slurm node is not removed yet", {{"node", name}, {"why", error.what()}});
      record(name, {kube::EventType::kNormal, "SlurmNodeRemoving",
                    fmt::format("Slurm node {} is not removed yet: {}", name, error.what())});
      controller.add_after(name, kDrainLook);
    }
  }

  Task<> taint(std::string name, bool set, std::stop_token stop) {
    const auto found = by_slurm_name.find(name);
    if (found == by_slurm_name.end()) co_return;
    const std::vector<NodePtr> nodes = found->second;
    for (const NodePtr& node : nodes) {
      bool again = false;
      parts.must_lead();
      try {
        co_await parts.kube.patch(kube::resources::kNodes, node->meta.key, kube::PatchType::kJson,
                                  taint_patch(*node, config.scheduler_name, set), {}, {}, stop);
      } catch (const kube::NotFound&) {
      } catch (const kube::Conflict&) {
        again = true;  // changed meanwhile: decided anew
      }
      if (again) controller.add_after(name, 100ms);
    }
  }

  // Slurm's word on the node, where its Kubernetes users look.
  Task<> tell_condition(std::string name, std::stop_token stop) {
    const NodeSides sides = sides_of(name);
    if (!sides.slurm_known || (!sides.slurm && !sides.slurm_has_nodes && !memory[name].removed)) co_return;
    const auto mark = sides.slurm ? parse_mark(sides.slurm->extra) : std::nullopt;
    const bool foreign = mark && mark->cluster != self.cluster && sides.slurm->states.has(slurm::NodeFlag::kExternal);
    for (const NodePtr& node : sides.nodes) {
      const auto condition = changed_condition(*node, foreign ? nullptr : sides.slurm.get());
      if (!condition) continue;
      const bool goes = condition->status.empty();
      json::Object item{{"type", kSlurmReady}};
      if (goes) {
        item["$patch"] = "delete";
      } else {
        item["status"] = condition->status;
        item["reason"] = condition->reason;
        item["message"] = condition->message;
        item["lastTransitionTime"] = print_rfc3339(loop.wall());
      }
      json::Value patch = json::Object{{"metadata", json::Object{{"uid", node->meta.uid.str()}}},
                                       {"status", json::Object{{"conditions", json::Array{std::move(item)}}}}};
      parts.must_lead();
      try {
        co_await parts.kube.patch(kube::resources::kNodes, node->meta.key, kube::PatchType::kStrategic,
                                  std::move(patch), "status", {}, stop);
      } catch (const kube::NotFound&) {
        continue;
      }
      if (goes) continue;
      record(name, {condition->status == "True" ? kube::EventType::kNormal : kube::EventType::kWarning,
                    "Slurm" + condition->reason, condition->message});
    }
  }

  // What is new of what the plan says becomes events; what holds on is not told again.
  void tell(const std::string& name, const NodePlan& plan) {
    std::set<std::string> now;
    for (const NodeSay& say : plan.say) {
      now.insert(say.reason + say.note);
      if (said[name].contains(say.reason + say.note)) continue;
      record(name, say);
    }
    said[name] = std::move(now);
  }
  void record(const std::string& name, const NodeSay& say) {
    const auto nodes = by_slurm_name.find(name);
    if (nodes == by_slurm_name.end()) return;
    for (const NodePtr& node : nodes->second) {
      parts.events.record({"v1", "Node", node->meta.key, node->meta.uid}, say.type, say.reason, "Syncing", say.note);
    }
  }
};

NodeSync::NodeSync(Parts parts, const Config& config, Identity self, std::size_t workers)
    : impl_(std::make_unique<Impl>(parts, config, std::move(self), workers)) {}
NodeSync::~NodeSync() = default;
void NodeSync::start() {
  impl_->controller.start();
}
Task<> NodeSync::stop() {
  return impl_->controller.stop();
}

}  // namespace bascule::bridge

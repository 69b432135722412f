#include "bridge/node_sync.hpp"

#include <map>
#include <set>

#include "base/log.hpp"
#include "bridge/names.hpp"
#include "runtime/controller.hpp"

namespace bascule::bridge {

namespace {

using namespace std::chrono_literals;

// Partitions change rarely, and only by an administrator.
constexpr Duration kPartitionsAge = std::chrono::seconds(60);
// Nodes drained at once to be registered anew with another size.
constexpr std::size_t kMaxReshaping = 1;
constexpr std::int32_t kAlreadyExists = 2168;

// The taints with ours set or taken away; they have no merge key, so the list is written whole, against the version it
// was read from.
json::Object taint_patch(const kube::Node& node, const std::string& scheduler, bool set) {
  json::Array taints;
  for (const kube::Taint& taint : node.taints) {
    if (taint.key == names::kManagedNodeTaint && taint.effect == "NoExecute") continue;
    json::Object item{{"key", taint.key.str()}, {"effect", taint.effect.str()}};
    if (!taint.value.empty()) item["value"] = taint.value.str();
    taints.emplace_back(std::move(item));
  }
  if (set)
    taints.emplace_back(
        json::Object{{"key", std::string(names::kManagedNodeTaint)}, {"value", scheduler}, {"effect", "NoExecute"}});
  return {{"metadata", json::Object{{"resourceVersion", node.meta.resource_version}}},
          {"spec", json::Object{{"taints", std::move(taints)}}}};
}

}  // namespace

struct NodeSync::Impl {
  Impl(Parts p, const Config& c, NodeIdentity s, std::size_t workers)
      : parts(p),
        loop(p.kube.loop()),
        config(c),
        self(std::move(s)),
        controller(
            loop, {.name = "node", .workers = workers},
            [this](std::string key, std::stop_token stop) { return reconcile(std::move(key), std::move(stop)); },
            p.metrics) {
    parts.nodes.on_change([this](const NodePtr& before, const NodePtr& after) {
      if (before) put(before, false);
      if (after) put(after, true);
    });
    parts.mirror.on_node([this](const slurm::ClusterMirror::NodeChange& change) {
      controller.add(change.after ? change.after->name : change.before->name);
    });
    parts.mirror.on_health([this](bool) { all_again(); });
  }

  Parts parts;
  Loop& loop;
  const Config& config;
  NodeIdentity self;
  runtime::Controller controller;
  std::map<std::string, std::vector<NodePtr>> by_slurm_name;
  std::map<std::string, NodeMemory> memory;
  std::map<std::string, std::set<std::string>> said;  // by node, what its events last told
  std::set<std::string> partitions;
  std::optional<TimePoint> partitions_at;
  std::set<std::string> reshaping;

  void put(const NodePtr& node, bool there) {
    const std::string name = slurm_name_of(*node);
    auto& list = by_slurm_name[name];
    std::erase_if(list, [&](const NodePtr& n) { return n->meta.uid == node->meta.uid; });
    if (there) list.push_back(node);
    if (list.empty()) by_slurm_name.erase(name);
    controller.add(name);
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
    if (partitions_at) sides.partitions = &partitions;
    sides.may_reshape = reshaping.contains(name) || reshaping.size() < kMaxReshaping;
    return sides;
  }

  Task<runtime::Result> reconcile(std::string name, std::stop_token stop) {
    runtime::Result result;
    NodePlan plan = plan_node(config, self, sides_of(name), memory[name], loop.now());
    const bool stale = !partitions_at || loop.now() - *partitions_at > kPartitionsAge;
    if (plan.need_partitions && stale) {
      co_await read_partitions(stop);
      plan = plan_node(config, self, sides_of(name), memory[name], loop.now());
    }
    tell(name, plan);
    const bool wrote = plan.writes_slurm();
    if (wrote || plan.taint) co_await act(name, plan, stop);
    if (!parts.mirror.nodes_synced()) {
      result.requeue_after = 1s;
    } else if (plan.wake) {
      result.requeue_after = std::max<Duration>(*plan.wake - loop.now(), 10ms);
    }
    if (wrote) {
      parts.mirror.poke();
      result.requeue_after = std::min<Duration>(result.requeue_after.value_or(2s), 2s);
    }
    if (plan.idle() && !by_slurm_name.contains(name) && parts.mirror.nodes_synced() && !parts.mirror.node(name)) {
      memory.erase(name);
      said.erase(name);
      reshaping.erase(name);
    }
    co_return result;
  }

  Task<> read_partitions(std::stop_token stop) {
    const std::vector<slurm::Partition> found = co_await parts.slurm.list_partitions(stop);
    partitions.clear();
    for (const slurm::Partition& partition : found) partitions.insert(partition.name);
    partitions_at = loop.now();
  }

  Task<> act(std::string name, NodePlan plan, std::stop_token stop) {
    if (plan.add) co_await add(name, *plan.add, stop);
    if (plan.update) {
      co_await parts.slurm.update_node(name, *plan.update, stop);
      log::info("Slurm node updated", {{"node", name}});
    }
    if (plan.state) {
      const bool reshapes = plan.state->reason && is_reshape_reason(*plan.state->reason);
      reshapes ? (void)reshaping.insert(name) : (void)reshaping.erase(name);
      co_await parts.slurm.update_node(name, *plan.state, stop);
      log::info(
          "Slurm node state changed",
          {{"node", name}, {"state", plan.state->state.value_or("")}, {"reason", plan.state->reason.value_or("")}});
    }
    if (plan.remove) co_await remove(name, stop);
    if (plan.taint) co_await taint(name, *plan.taint, stop);
  }

  Task<> add(std::string name, std::string conf, std::stop_token stop) {
    try {
      co_await parts.slurm.add_node(std::move(conf), stop);
      log::info("Slurm node registered", {{"node", name}});
    } catch (const slurm::Refused& error) {
      if (error.number() != kAlreadyExists) throw;
    }
  }

  Task<> remove(std::string name, std::stop_token stop) {
    try {
      co_await parts.slurm.delete_node(name, stop);
      reshaping.erase(name);
      log::info("Slurm node removed", {{"node", name}});
    } catch (const slurm::NotFound&) {
    } catch (const slurm::Busy&) {
      // A job ends there at this moment; looked at again.
    }
  }

  Task<> taint(std::string name, bool set, std::stop_token stop) {
    const auto found = by_slurm_name.find(name);
    if (found == by_slurm_name.end()) co_return;
    const std::vector<NodePtr> nodes = found->second;
    for (const NodePtr& node : nodes) {
      bool again = false;
      try {
        co_await parts.kube.patch(kube::resources::kNodes, node->meta.key, kube::PatchType::kMerge,
                                  taint_patch(*node, config.scheduler_name, set), {}, {}, stop);
      } catch (const kube::NotFound&) {
      } catch (const kube::Conflict&) {
        again = true;  // changed meanwhile: decided anew
      }
      if (again) controller.add_after(name, 100ms);
    }
  }

  // What is new of what the plan says becomes events; what holds on is not told again.
  void tell(const std::string& name, const NodePlan& plan) {
    std::set<std::string> now;
    for (const NodeSay& say : plan.say) {
      now.insert(say.reason + say.note);
      if (said[name].contains(say.reason + say.note)) continue;
      const auto nodes = by_slurm_name.find(name);
      if (nodes == by_slurm_name.end()) continue;
      for (const NodePtr& node : nodes->second) {
        parts.events.record({"v1", "Node", node->meta.key, node->meta.uid}, say.type, say.reason, "Syncing", say.note);
      }
    }
    said[name] = std::move(now);
  }
};

NodeSync::NodeSync(Parts parts, const Config& config, NodeIdentity self, std::size_t workers)
    : impl_(std::make_unique<Impl>(parts, config, std::move(self), workers)) {}
NodeSync::~NodeSync() = default;
void NodeSync::start() {
  impl_->controller.start();
}
Task<> NodeSync::stop() {
  return impl_->controller.stop();
}

}  // namespace bascule::bridge

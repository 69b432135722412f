#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "operator/api/derived.hpp"
#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/config/files.hpp"
#include "operator/config/left_lines.hpp"
#include "operator/config/slurm_conf.hpp"
#include "operator/reconcile/apply.hpp"
#include "operator/reconcile/controller_ref.hpp"
#include "operator/reconcile/key_change.hpp"
#include "operator/reconcile/name_clash.hpp"
#include "operator/reconcile/plan.hpp"
#include "operator/reconcile/state_place.hpp"

namespace bascule::op::reconcile {

namespace {

// An installation makes a Controller, its NodeSets and its Accounting one after the other: a slurmctld that is started
// between them is started twice.
constexpr Duration kSettle = std::chrono::seconds(2);

std::string json_name(const json::Value& object) {
  return std::string(json::string_at(object, {"metadata", "name"}));
}

// What slurm.conf is made of, besides the Controller itself.
struct Around {
  std::optional<Accounting> accounting = {};
  std::vector<NodeSet> node_sets = {};
  FilePlan files = {};
  bool whole = true;  // else slurm.conf stays as it is
};

void take_accounting(const Controller& controller, View& view, Plan& plan, Around& around) {
  if (controller.accounting.empty()) return;
  const json::Value* object = view.find(kAccountings, controller.accounting);
  if (!object) {
    plan.wait(fmt::format("Accounting {}, named in spec.accountingRef, does not exist", controller.accounting));
    around.whole = false;
    return;
  }
  try {
    around.accounting = read_accounting(*object);
  } catch (const BadObject& error) {
    plan.wait(error.what());
    around.whole = false;
  }
}

std::string_view conf_in_place(const Controller& controller, View& view) {
  const json::Value* map = view.find(kConfigMaps, names::config(controller.meta.name));
  return map ? json::string_at(*map, {"data", names::kSlurmConf}) : std::string_view();
}

// Somebody said that slurmctld does not start with the lines that are kept.
bool drops_lines(const Controller& controller) {
  const auto order = controller.meta.annotations.find(std::string(names::kDropLines));
  return order != controller.meta.annotations.end() && order->second == "true";
}

// A NodeSet that cannot be read would vanish from slurm.conf with its partition, and the jobs there end: the
// configuration waits for it, unless there is none yet.
void take_node_sets(const Controller& controller, View& view, const ClusterStand& stand, Plan& plan, Around& around) {
  const std::string_view in_place = conf_in_place(controller, view);
  const bool running = !in_place.empty();
  for (const json::Value* object : view.node_sets_of(controller.meta.name)) {
    try {
      NodeSet set = read_nodeset(*object);
      if (set.meta.deleted && drops_lines(controller)) {
        plan.keeps_lines = true;  // slurmctld is to be asked
        // What has gone does not come back before the NodeSet is gone.
        const bool there = in_place.contains(fmt::format("\nNodeSet={} ", slurm_name(set)));
        if (!there || stand.nodes() == NodesStand::kUnknown) continue;
      }
      around.node_sets.push_back(std::move(set));
    } catch (const BadObject& error) {
      plan.wait(error.what());
      around.whole = around.whole && !running;
    }
  }
}

void take_files(const Controller& controller, View& view, Plan& plan, Around& around) {
  ConfigMaps maps;
  for (const std::string& name : referenced_config_maps(controller)) {
    if (const json::Value* map = view.find(kConfigMaps, name)) maps.emplace(name, read_config_map(*map));
  }
  around.files = plan_files(controller, maps);
  for (const std::string& name : around.files.missing) {
    plan.wait(fmt::format("ConfigMap {}, whose files /etc/slurm is to have, does not exist", name));
  }
  for (const std::string& sentence : around.files.faults) plan.faults.push_back({"ConfigFiles", sentence});
  around.whole = around.whole && around.files.missing.empty() && around.files.faults.empty();
}

// Slurmctlds run on different nodes and share it. A standby would wait for it for ever, and nobody would say why.
void look_at_claim(const Controller& controller, View& view, Plan& plan) {
  if (controller.external || !controller.ha || !controller.persistence.enabled) return;
  const std::string& name = controller.persistence.existing_claim;
  const json::Value* claim = name.empty() ? nullptr : view.find(kClaims, name);
  const json::Array* modes = claim ? json::array_at(*claim, {"spec", "accessModes"}) : nullptr;
  if (!modes || std::ranges::find(*modes, json::Value("ReadWriteMany")) != modes->end()) return;
  std::string sentence = fmt::format(
      "claim {}, named in spec.persistence.existingClaim, can be written by one node only; all slurmctld of a cluster "
      "share it, so it needs ReadWriteMany among its access modes",
      name);
  plan.faults.push_back({"ClaimOfOneNode", std::move(sentence)});
}

// A new NodeSet that is called like another's node does without its lines; one in place keeps its jobs.
void part_names(std::string_view in_place, Around& around, Plan& plan) {
  for (const NameClash& clash : name_clashes(around.node_sets)) {
    const bool there = in_place.contains(fmt::format("\nNodeSet={} ", clash.name));
    std::string sentence = fmt::format(
        "NodeSet {} is called in slurm.conf like node {} of NodeSet {}, and {}: give one of them another hostname",
        clash.set, clash.name, clash.other,
        there ? "slurmctld does not take that node" : "slurmctld does not start with both, so its lines are left out");
    plan.faults.push_back({"NodeSetNamedLikeNode", std::move(sentence)});
    if (there) continue;
    std::erase_if(around.node_sets, [&clash](const NodeSet& set) { return set.meta.name == clash.set; });
  }
}

// One of them that slurmctld does not start with would keep it down for ever: it could never say that no job runs.
void tell_way_out(Plan& plan) {
  std::string way = fmt::format(
      "If slurmctld does not start because of such lines (see its log), set the Controller's annotation {} to \"true\" "
      "to have them taken out at once; the jobs in those partitions end",
      names::kDropLines);
  if (std::ranges::find(plan.waits, way, &Wait::sentence) == plan.waits.end()) plan.wait(std::move(way));
}

void tell_kept(const std::map<std::string, NodesStand>& kept, Plan& plan) {
  bool unknown = false;
  for (const auto& [name, stand] : kept) {
    const std::string keeps =
        fmt::format("slurm.conf keeps the lines of {}, which no NodeSet asks for any more: ", name);
    if (stand == NodesStand::kUnknown) {
      plan.wait(keeps + "slurmctld or slurmrestd does not say whether jobs run on its nodes");
      unknown = true;
    } else {
      plan.notes.push_back(keeps + (stand == NodesStand::kOpen
                                        ? "jobs run on its nodes, or can be given to them"
                                        : "slurmctld is being asked whether jobs run on its nodes"));
    }
  }
  if (unknown) tell_way_out(plan);
}

// A slurmctld that is not there lets no NodeSet go.
void tell_going(const Around& around, Plan& plan) {
  std::vector<std::string_view> going;
  for (const NodeSet& set : around.node_sets) {
    if (set.meta.deleted) going.push_back(set.meta.name);
  }
  if (going.empty()) return;
  plan.wait(fmt::format("slurm.conf keeps the lines of NodeSet {} until slurmctld says that no job runs there",
                        fmt::join(going, ", ")));
  tell_way_out(plan);
}

// slurmctld ends the jobs of a partition that goes from slurm.conf. What no NodeSet asks for any more stays until none
// runs there. Where the partition alone is off its nodes serve on: only its own jobs count.
std::vector<LeftLine> keep_lines(const ClusterView& cluster, View& view, const ClusterStand& stand, Plan& plan) {
  // Only while slurmctld is silent: left on, it would end jobs some day.
  const bool drop = drops_lines(cluster.controller);
  std::vector<LeftLine> left =
      left_lines(conf_in_place(cluster.controller, view), node_set_lines(cluster), cluster.controller.extra_conf);
  std::set<std::string> gone;
  for (const LeftLine& line : left) {
    if (!line.partition) gone.insert(line.name);
  }
  std::set<std::string> wanted;
  for (const NodeSet& set : cluster.node_sets) wanted.insert(slurm_name(set));
  std::map<std::string, NodesStand> kept;
  for (LeftLine& line : left) {
    NodesStand of_it = line.partition ? stand.of_partition(line.name) : stand.of_former(line.name, wanted);
    if (of_it == NodesStand::kClear && gone.contains(line.name)) of_it = stand.of_former(line.name, wanted);
    if (drop && of_it == NodesStand::kUnknown) of_it = NodesStand::kClear;
    if (of_it != NodesStand::kClear) kept.emplace(line.name, of_it);
    // Else it would be given new jobs for ever, as a default perhaps those of the partition that took its place.
    if (line.partition && !gone.contains(line.name)) line.text = closed_partition(line.text);
  }
  std::erase_if(left, [&kept](const LeftLine& line) { return !kept.contains(line.name); });
  tell_kept(kept, plan);
  plan.keeps_lines = plan.keeps_lines || !kept.empty();
  return left;
}

void take_time(const Controller& controller, View& view, Plan& plan, Around& around, WallTime now) {
  if (view.find(kConfigMaps, names::config(controller.meta.name))) return;
  std::optional<WallTime> newest = controller.meta.created;
  const auto count = [&newest](const std::optional<WallTime>& created) {
    if (created && (!newest || *created > *newest)) newest = created;
  };
  if (around.accounting) count(around.accounting->meta.created);
  for (const NodeSet& set : around.node_sets) count(set.meta.created);
  // A clock that is wrong must not hold it up for ever.
  if (!newest || now < *newest - kSettle || now >= *newest + kSettle) return;
  plan.wait("the objects of this cluster are still coming");
  plan.wake = *newest + kSettle;
  around.whole = false;
}

// Nobody may change them, and with one that differs no other change would be taken either. As slurm-operator does.
void keep_claim_templates(json::Value& set, const json::Value* live, Plan& plan) {
  const json::Value* there = live ? json::find(*live, {"spec", "volumeClaimTemplates"}) : nullptr;
  json::Value* wanted = json::find(set, {"spec", "volumeClaimTemplates"});
  if (!there || !wanted) return;
  if (!covers(*there, *wanted)) {
    plan.notes.emplace_back(
        "spec.persistence has changed, which the claims that exist do not follow: change them "
        "themselves (a size), or put it back");
  }
  *wanted = *there;
}

void add_stateful_set(const Controller& controller, json::Value set, const KeyHashes& keys, View& view, Plan& plan) {
  const json::Value* live = view.find(kStatefulSets, json_name(set));
  keep_claim_templates(set, live, plan);
  plan.add(kStatefulSets, std::move(set));
  plan.key_wait = key_wait(controller, live, keys, view);
  miss_key(key_in_use(controller, live, keys.slurm).ref, controller.keys.slurm, view, plan);
}

// Nobody but its administrator writes the configuration of a slurmctld outside: what the NodeSets need there is said.
void note_lines(const ClusterView& cluster, Plan& plan) {
  std::string lines = node_set_lines(cluster);
  if (lines.empty()) return;
  std::ranges::replace(lines, '\n', ';');
  plan.notes.push_back(fmt::format("the slurm.conf of the slurmctld outside needs these lines: {}", lines));
}

// One that has moved outside: what it ran here would be a second slurmctld of that cluster. Its claims stay.
void leave(const Controller& controller, Plan& plan) {
  const std::string& name = controller.meta.name;
  plan.unwanted.push_back({&kStatefulSets, names::controller(name)});
  plan.unwanted.push_back({&kServices, json_name(controller_service(controller))});
  plan.unwanted.push_back({&kServices, json_name(controller_internal_service(controller))});
}

// slurm.conf and whoever has it.
void add_configured(const Controller& controller, const Around& around, const std::optional<KeyHashes>& keys,
                    View& view, const ClusterStand& stand, Plan& plan) {
  ClusterView cluster{.controller = controller,
                      .accounting = around.accounting ? &*around.accounting : nullptr,
                      .node_sets = around.node_sets,
                      .room = room_in(conf_in_place(controller, view))};
  std::vector<LeftLine> left;
  if (!controller.external) left = keep_lines(cluster, view, stand, plan);
  cluster.left = left;
  const std::string conf = slurm_conf(cluster, around.files);
  json::Value files = controller_config(controller, conf, around.files);
  if (controller.external) {
    plan.add(kConfigMaps, std::move(files));
    return note_lines(cluster, plan);
  }
  json::Value set = controller_stateful_set(controller, conf, around.files, keys.value_or(KeyHashes{}));
  if (auto elsewhere = state_elsewhere(view.find(kStatefulSets, json_name(set)), set)) {
    plan.faults.push_back({"StateElsewhere", *std::move(elsewhere)});
    return;  // also when it starts anew by itself it finds its state
  }
  plan.config_digest = config_digest(cluster, around.files);
  plan.add(kConfigMaps, std::move(files));
  // Its pods would hang without the keys, and one that hangs holds up every later change.
  if (keys) add_stateful_set(controller, std::move(set), *keys, view, plan);
}

}  // namespace

Plan plan_controller(const json::Value& object, View& view, WallTime now, const ClusterStand& stand) {
  const Controller controller = read_controller(object);
  Plan plan;
  if (controller.external) {
    leave(controller, plan);
  } else {
    plan.add(kServices, controller_internal_service(controller));
    plan.add(kServices, controller_service(controller));
  }
  const std::optional<KeyHashes> keys = key_hashes(view, controller.keys, plan);
  Around around;
  take_accounting(controller, view, plan, around);
  take_node_sets(controller, view, stand, plan, around);
  take_files(controller, view, plan, around);
  take_time(controller, view, plan, around, now);
  look_at_claim(controller, view, plan);
  if (!controller.external) part_names(conf_in_place(controller, view), around, plan);
  if (around.whole) add_configured(controller, around, keys, view, stand, plan);
  const std::string name = names::controller(controller.meta.name);
  if (wants_service_monitor(controller)) {
    plan.add(kServiceMonitors, controller_service_monitor(controller));
  } else {
    plan.unwanted.push_back({&kServiceMonitors, name});
  }
  if (!controller.external) {
    if (auto wait = workload_wait(kStatefulSets, name, view.find(kStatefulSets, name))) {
      plan.wait(*std::move(wait));
      tell_going(around, plan);
    }
  }
  return plan;
}

}  // namespace bascule::op::reconcile

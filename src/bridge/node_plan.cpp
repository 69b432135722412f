#include "bridge/node_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bridge/names.hpp"
#include "json/value.hpp"

namespace bascule::bridge {

bool is_idle(const slurm::Node& node) {
  using State = slurm::NodeState;
  return (node.states.base == State::kIdle || node.states.base == State::kDown) &&
         !node.states.has(slurm::NodeFlag::kCompleting) && node.alloc_cpus == 0;
}

bool looks_stranded(const slurm::Node& node) {
  using State = slurm::NodeState;
  return (node.states.base == State::kAllocated || node.states.base == State::kMixed) && node.alloc_cpus == 0 &&
         !node.states.has(slurm::NodeFlag::kCompleting);
}

namespace {

constexpr std::string_view kUnreachable = "node.kubernetes.io/unreachable";

// One planning step over one node; what it decides is in `plan_`.
class Planner final {
 public:
  Planner(const Config& config, const Identity& self, const NodeSides& sides, NodeMemory& memory, TimePoint now)
      : config_(config), self_(self), sides_(sides), memory_(memory), now_(now) {
    if (sides.nodes.size() == 1) kube_ = sides.nodes.front().get();
    slurm_ = sides.slurm.get();
    if (slurm_ != nullptr) mark_ = parse_mark(slurm_->extra);
  }

  NodePlan run() {
    watch_stranded();
    if (!sides_.nodes_known || !sides_.slurm_known) return std::move(plan_);
    if (sides_.nodes.size() > 1) {
      say_double();
      return std::move(plan_);
    }
    watch_readiness();
    watch_devices();
    if (kube_ == nullptr) {
      if (is_ours() && is_external()) leave();
    } else if (slurm_ == nullptr) {
      if (is_labelled()) add();
    } else if (is_external() && !is_labelled() && is_ours()) {
      leave();
    } else {
      keep();
    }
    if (plan_.remove) memory_.removed = true;
    if (plan_.remove && (kube_ == nullptr || !is_labelled())) memory_.registered = {};
    if (slurm_ != nullptr && !plan_.remove) memory_.removed = false;
    if (kube_ != nullptr) taint();
    return std::move(plan_);
  }

 private:
  void say(kube::EventType type, std::string_view why, std::string note) {
    plan_.say.push_back({type, std::string(why), std::move(note)});
  }
  void warn(std::string_view why, std::string note) { say(kube::EventType::kWarning, why, std::move(note)); }
  void wake_at(TimePoint when) { plan_.wake = plan_.wake ? std::min(*plan_.wake, when) : when; }

  bool is_labelled() const { return kube::find(kube_->meta.labels, names::kExternalNode) != nullptr; }
  bool is_external() const { return slurm_->states.has(slurm::NodeFlag::kExternal); }
  // By cluster alone: a bridge that got another name still knows its nodes.
  bool is_ours() const { return slurm_ != nullptr && mark_ && mark_->cluster == self_.cluster; }
  bool is_foreign() const { return mark_ && !is_ours(); }

  void say_double() {
    std::string all;
    for (const NodePtr& node : sides_.nodes) all += (all.empty() ? "" : ", ") + node->meta.key.name;
    warn("SlurmNameClash", fmt::format("nodes {} all have the name {} in Slurm; give each its own label {}", all,
                                       sides_.slurm_name, names::kSlurmNodeName));
  }

  // --- readiness --------------------------------------------------------------------------------------------------

  void watch_readiness() {
    if (kube_ == nullptr || kube_->ready.status == "True") {
      memory_.not_ready_since.reset();
    } else if (!memory_.not_ready_since) {
      memory_.not_ready_since = now_;
    }
  }
  bool is_ready() const { return kube_->ready.status == "True"; }
  bool is_lost() {
    if (is_ready()) return false;
    const bool unreachable =
        std::ranges::any_of(kube_->taints, [](const kube::Taint& taint) { return taint.key == kUnreachable; });
    if (unreachable || now_ - *memory_.not_ready_since >= kReadyGrace) return true;
    wake_at(*memory_.not_ready_since + kReadyGrace);
    return false;
  }

  // --- devices ----------------------------------------------------------------------------------------------------

  void watch_devices() {
    if (kube_ == nullptr) return;
    if (slurm_ != nullptr) memory_.registered = registered_devices();
    devices_unknown_ = sides_.devices.unknown;
    const std::string fewer = fewer_than(memory_.registered, sides_.devices, config_.device_drivers);
    if (!devices_unknown_.empty() || fewer.empty() || !is_ready()) memory_.fewer_since.reset();
    if (!devices_unknown_.empty() || fewer.empty()) return;
    if (is_ready() && !memory_.fewer_since) memory_.fewer_since = now_;
    if (memory_.fewer_since && now_ - *memory_.fewer_since >= kDevicesSettle) return;
    devices_unknown_ = fewer;
    if (memory_.fewer_since) wake_at(*memory_.fewer_since + kDevicesSettle);
  }
  // What an administrator gave to a node without devices is none of ours.
  RegisteredDevices registered_devices() const {
    RegisteredDevices out;
    if (!is_external() || is_foreign()) return out;
    if (!mark_ || !mark_->devices.empty()) out.gres = slurm_->gres;
    if (mark_ && mark_->cpu_devices) out.cpus = slurm_->cpus;
    return out;
  }

  // --- registering ------------------------------------------------------------------------------------------------

  // The features wanted; nullopt: something is wrong with them, and said, or not known yet.
  std::optional<std::vector<std::string>> features() {
    std::vector<std::string> wanted = partitions_of(*kube_);
    for (const std::string& name : wanted) {
      if (!is_plain_feature(name)) {
        warn("SlurmPartitionInvalid",
             fmt::format("annotation {}: \"{}\" cannot be a partition: letters, digits, '-', '_' and '.' only",
                         names::kExternalNodePartitions, name));
        return std::nullopt;
      }
    }
    if (wanted.empty()) return wanted;
    if (sides_.partitions == nullptr) {
      plan_.need_partitions = true;
      return std::nullopt;
    }
    for (const std::string& name : wanted) {
      if (!sides_.partitions->contains(name)) {
        warn("SlurmPartitionUnknown", fmt::format("annotation {}: Slurm has no partition {}; create it or correct the "
                                                  "annotation",
                                                  names::kExternalNodePartitions, name));
        wake_at(now_ + std::chrono::minutes(1));
        return std::nullopt;
      }
    }
    return wanted;
  }

  // Normalised; nullopt: invalid, and said.
  std::optional<std::string> topology() {
    std::string wanted = normal_topology(kube::value_or(kube_->meta.annotations, names::kTopologySpec));
    if (wanted.empty() || is_plain_topology(wanted)) return wanted;
    warn("SlurmTopologyInvalid",
         fmt::format("annotation {}: \"{}\" is not a topology such as topo-switch:s2,topo-block:b2",
                     names::kTopologySpec, wanted));
    return std::nullopt;
  }

  bool has_name() {
    if (is_plain_node_name(sides_.slurm_name)) return true;
    warn("SlurmNameInvalid",
         fmt::format("label {}: \"{}\" cannot be a node name in Slurm", names::kSlurmNodeName, sides_.slurm_name));
    return false;
  }

  void add() {
    if (kube_->meta.deleted || !has_name()) return;
    if (!sides_.leaving.empty()) {
      say(kube::EventType::kNormal, "SlurmRegistrationWaits",
          fmt::format("the node is still in Slurm as {}, which is drained and removed first", sides_.leaving));
      wake_at(now_ + kDrainLook);
      return;
    }
    if (!is_ready()) {
      say(kube::EventType::kNormal, "SlurmRegistrationWaits",
          "the node will be registered in Slurm as soon as it is ready");
      return;
    }
    // Without an address slurmctld resolves the name when it allocates the node, and holds its locks meanwhile.
    if (!is_plain_address(kube_->internal_ip)) {
      warn("SlurmRegistrationWaits",
           "the node has no InternalIP address in its status yet, and Slurm must not look its name up; it will be "
           "registered when it has one");
      return;
    }
    if (!devices_unknown_.empty()) {
      say(kube::EventType::kNormal, "SlurmRegistrationWaits", "the node waits for its devices: " + devices_unknown_);
      return;
    }
    const NodeShape shape = shape_of(*kube_, sides_.devices);
    if (shape.cpus == 0 || shape.memory == 0) {
      warn("SlurmRegistrationWaits", fmt::format("the node's allocatable resources ({} whole CPUs, {} MiB) leave "
                                                 "nothing for Slurm to give",
                                                 shape.cpus, shape.memory));
      return;
    }
    const auto wanted_features = features();
    const auto wanted_topology = topology();
    if (!wanted_features || !wanted_topology) return;
    plan_.add = node_line(sides_.slurm_name, *kube_, shape, *wanted_features, *wanted_topology);
    plan_.update = slurm::NodeUpdate{};
    plan_.update->extra =
        print_mark({self_.bridge, self_.cluster, *wanted_topology, device_mark(shape), shape.cpu_devices});
    if (kube_->unschedulable) plan_.state = drained(cordon_reason(kube_->meta.key.name));
    say(kube::EventType::kNormal, "SlurmRegistering",
        fmt::format("registering in Slurm as external node {} with {} CPUs and {} MiB{}", sides_.slurm_name, shape.cpus,
                    shape.memory, shape.gres.empty() ? "" : ", " + shape.gres));
    for (const auto& [name, why] : sides_.devices.problems) {
      warn("SlurmDevicesLeftOut", fmt::format("devices of class {} are not given to Slurm: {}", name, why));
    }
    say_uncounted();
  }

  // A plugin tells how many it has and not which, and an external node has no slurmd that would know them.
  void say_uncounted() {
    const std::string gpus = uncounted_gpus(*kube_, sides_.devices);
    if (gpus.empty() || (slurm_ != nullptr && !slurm_->gres.empty())) return;
    warn(
        "SlurmDevicesUncounted",
        fmt::format("{} of a device plugin are not given to Slurm, which refuses pods that ask for them here: external "
                    "nodes have the devices that a driver publishes in ResourceSlices; install the vendor's DRA driver "
                    "and ask for {}CLASS instead, or share the node through a slurmd with a gres.conf",
                    gpus, names::kDeviceClassPrefix));
  }

  // --- in service -------------------------------------------------------------------------------------------------

  // Shared with us: pods may be placed on it through Slurm, so other schedulers must keep off. Partitions that only
  // annotations of pods name are known to nobody, so what says it besides the partition is a label or the taint itself.
  bool is_shared() const {
    if (slurm_ == nullptr || (is_external() && is_foreign())) return false;
    if (is_labelled() || kube::find(kube_->meta.labels, names::kSlurmNodeName) != nullptr) return true;
    const kube::Taint* taint = managed_taint(*kube_);
    if (taint != nullptr && taint->value == config_.scheduler_name) return true;
    return in_partition();
  }

  void keep() {
    if (is_external() && is_foreign()) {
      if (!is_labelled()) return;  // no more than a name that both clusters use
      warn("SlurmNodeForeign",
           fmt::format(
               "Slurm node {} was registered for another Kubernetes cluster ({}); give this node its own label {}",
               sides_.slurm_name, mark_->cluster, names::kSlurmNodeName));
      return;
    }
    const bool external = is_external() && is_labelled();
    if (!external && is_labelled()) {
      say(kube::EventType::kNormal, "SlurmNodeHybrid",
          fmt::format("Slurm node {} was registered by slurmd, so label {} changes nothing there", sides_.slurm_name,
                      names::kExternalNode));
    }
    if (is_external() && !is_labelled()) {
      warn("SlurmNodeUnmarked",
           fmt::format("external Slurm node {} does not bear this bridge's mark and is left alone; remove it with "
                       "scontrol delete nodename={}",
                       sides_.slurm_name, sides_.slurm_name));
    }
    std::optional<std::string> wanted;
    if (external) wanted = tend();
    if (plan_.remove) return;
    if (!is_shared() && !external) return give_back();
    if (!wanted && kube_->unschedulable) wanted = cordon_reason(kube_->meta.key.name);
    if (!wanted && (is_lost() || (!is_ready() && is_drained_by_us()))) wanted = lost_reason(kube_->meta.key.name);
    if (!wanted && !is_external() && sides_.adrift) {
      // Nobody of ours is bound beside it; slurmd starts jobs on what it uses.
      wanted = adrift_reason(kube_->meta.key.name, sides_.adrift->pod, sides_.adrift->of);
    }
    if (!wanted && drains_for_stranded()) wanted = stranded_reason(kube_->meta.key.name);
    set_drain(wanted);
    if (stranded_) free_stranded();
    if ((slurm_->states.base == slurm::NodeState::kDown && !is_put_down()) ||
        slurm_->states.has(slurm::NodeFlag::kFail)) {
      warn("SlurmNodeDown", fmt::format("Slurm node {} is {}{}", sides_.slurm_name, slurm::print(slurm_->states),
                                        slurm_->reason.empty() ? "" : ": " + slurm_->reason));
    }
  }

  // Shared no more, and drained by us while it was: nobody else knows that it may be in service again.
  void give_back() {
    if (is_external() || !is_reason_of_cluster(slurm_->reason, self_.cluster)) return;
    if (kube_->unschedulable || !is_ready() || sides_.adrift || managed_taint(*kube_) != nullptr) return;
    // Slurm leaves "... is schedulable" on a busy node that we have given back: what put it down later is not told.
    const bool left_down = is_left_down() && !is_schedulable_reason(slurm_->reason);
    if (is_drained() ? is_drained_by_us() : left_down) set_drain(std::nullopt);
  }

  // An external node of ours: features, topology, mark, size. The reason to drain it for, if it must be made anew.
  std::optional<std::string> tend() {
    if (memory_.fewer_since && !devices_unknown_.empty()) {
      warn("SlurmDevicesMissing",
           fmt::format("Slurm node {} stays as it is for now: {}; if that lasts ten minutes it is registered anew",
                       sides_.slurm_name, devices_unknown_));
    }
    if (!mark_ && !devices_unknown_.empty()) return std::nullopt;  // the mark says which devices it has
    slurm::NodeUpdate update;
    NodeMark mark{self_.bridge, self_.cluster, mark_ ? mark_->topology : "", mark_ ? mark_->devices : adopted_devices(),
                  (mark_ && mark_->cpu_devices) || sides_.devices.cpus.count() > 0};
    const std::vector<std::string> named = partitions_of(*kube_);
    if (!named.empty() && named != items_of(join_items(slurm_->features))) update.features = features();
    if (const auto wanted_topology = topology(); wanted_topology && *wanted_topology != mark.topology) {
      if (*wanted_topology != normal_topology(slurm_->topology)) update.topology = *wanted_topology;
      mark.topology = *wanted_topology;
    }
    // A text somebody else keeps in "extra" stays; the node then cannot be told from a stranger's and is not removed.
    if ((!mark_ && slurm_->extra.empty()) || (mark_ && mark != *mark_)) update.extra = print_mark(mark);
    if (!mark_ && !slurm_->extra.empty()) {
      warn("SlurmNodeUnmarked",
           fmt::format("the field extra of Slurm node {} is in use, so the node cannot be marked as "
                       "this bridge's and will not be removed by it",
                       sides_.slurm_name));
      // Without a memory of what was applied, the topology is set only where Slurm says another.
      if (update.topology && update.topology->empty()) update.topology.reset();
    }
    if (update.features || update.topology || update.extra) plan_.update = std::move(update);
    say_uncounted();
    if (slurm_->partitions.empty() || (!config_.partition.empty() && !in_partition())) {
      say(kube::EventType::kNormal, "SlurmNodeOutside",
          fmt::format(
              "Slurm node {} is not in partition {}; name it in annotation {} and let slurm.conf map the feature "
              "to the partition (Nodeset)",
              sides_.slurm_name, config_.partition, names::kExternalNodePartitions));
    }
    return reshape();
  }

  // A node that slurm-bridge registered lists its devices in the same order.
  std::string adopted_devices() const {
    const NodeShape shape = shape_of(*kube_, sides_.devices);
    return normal_gres(slurm_->gres) == normal_gres(shape.gres) ? device_mark(shape) : std::string();
  }

  // In any of those that are configured.
  bool in_partition() const {
    return std::ranges::any_of(items_of(config_.partition), [this](const std::string& one) {
      return std::ranges::find(slurm_->partitions, one) != slurm_->partitions.end();
    });
  }

  // Slurm cannot change the size of a live node: it must be removed and added.
  std::optional<std::string> reshape() {
    if (!is_ours() || kube_->meta.deleted || !is_ready()) return std::nullopt;
    const bool drains = slurm_->states.has(slurm::NodeFlag::kDrain) && is_reshape_reason(slurm_->reason);
    if (!devices_unknown_.empty()) return drains ? std::optional(slurm_->reason) : std::nullopt;
    const NodeShape wanted = shape_of(*kube_, sides_.devices);
    if (wanted.cpus == 0 || wanted.memory == 0) return std::nullopt;
    // A little less memory than there is harms nobody; what is left after a reboot differs by some pages.
    const bool memory_fits = slurm_->memory <= wanted.memory && wanted.memory - slurm_->memory <= wanted.memory / 64;
    const bool address_fits =
        slurm_->address.empty() || slurm_->address == kube_->internal_ip || !is_plain_address(kube_->internal_ip);
    if (slurm_->cpus == wanted.cpus && memory_fits && address_fits && devices_fit(wanted)) return std::nullopt;
    // Not drained: it could not be removed, and would be of no use until then. In a maintenance it is of none anyway,
    // and must not come out of it as it was.
    if (is_reserved() && !slurm_->states.has(slurm::NodeFlag::kMaintenance)) {
      say_outdated(wanted, "when its reservation is over");
      return std::nullopt;
    }
    std::string text = reshape_reason(sides_.slurm_name, wanted, kube_->internal_ip);
    if (is_drained()) {
      if (!has_our_reason()) return std::nullopt;  // its administrator has it
      if (is_idle(*slurm_) && !is_reserved()) {
        plan_.remove = plan_.anew = true;
        plan_.update.reset();
        return std::nullopt;
      }
    } else if (!is_idle(*slurm_) && !sides_.may_reshape) {
      say_outdated(wanted, "when it is idle or fewer others are");
      wake_at(now_ + kDrainLook);
      return std::nullopt;
    }
    wake_at(now_ + kDrainLook);
    return text;
  }

  // Slurm deletes no node of a reservation that is under way.
  bool is_reserved() const { return slurm_->states.has(slurm::NodeFlag::kReserved); }
  // Such a job would end with the node, pod or no pod.
  bool is_required() const { return !sides_.jobs_known || sides_.required_by; }
  std::string required_until() const {
    if (!sides_.jobs_known) return "is removed when Slurm's jobs are known";
    return fmt::format("is removed when job {}, which requires it by name, is over", sides_.required_by->value);
  }
  void say_outdated(const NodeShape& wanted, std::string_view when) {
    say(kube::EventType::kNormal, "SlurmNodeOutdated",
        fmt::format("Slurm node {} will be registered anew with {} CPUs and {} MiB {}", sides_.slurm_name, wanted.cpus,
                    wanted.memory, when));
  }

  bool devices_fit(const NodeShape& wanted) const {
    if (wanted.cpu_devices &&
        (slurm_->sockets != wanted.sockets || slurm_->cores != wanted.cores || slurm_->threads != wanted.threads)) {
      return false;
    }
    // GRES that an administrator gave to a node without devices are none of ours.
    if (wanted.gres.empty() && mark_->devices.empty()) return true;
    return normal_gres(slurm_->gres) == normal_gres(wanted.gres) && mark_->devices == device_mark(wanted);
  }

  // A drain of ours. Slurm may leave the text of our undrain, and drain the node by itself behind it.
  bool has_our_reason() const {
    return is_our_reason(slurm_->reason, self_.cluster) && !is_schedulable_reason(slurm_->reason);
  }
  // Two clusters may know one hybrid node by one name, each with its own cordon.
  std::string signed_reason(std::string text) const {
    return is_external() ? text : reason_of_cluster(std::move(text), self_.cluster);
  }
  bool is_drained() const {
    return slurm_->states.has(slurm::NodeFlag::kDrain) && !slurm_->states.has(slurm::NodeFlag::kUndrain);
  }
  bool is_drained_by_us() const { return is_drained() && has_our_reason(); }

  static slurm::NodeUpdate change_to(std::string state, std::string reason) {
    slurm::NodeUpdate update;
    update.state = std::move(state);
    update.reason = std::move(reason);
    return update;
  }
  static slurm::NodeUpdate drained(std::string text) { return change_to("DRAIN", std::move(text)); }

  // A slurmd that was away for too long while its node was drained by us (a reboot) comes back to a node that is down
  // for our reason: to Slurm a reason of an administrator, who has to resume it, and to the operator none of its own.
  // The text of our undrain, which Slurm leaves on a busy node, is no reason for what befell the node later.
  bool is_left_down() const {
    if (is_external()) return is_ready() && is_put_down();
    return is_ready() && is_our_reason(slurm_->reason, self_.cluster) && !is_behind_schedulable(slurm_->reason) &&
           is_down_alive(*slurm_);
  }

  void set_drain(std::optional<std::string> wanted) {
    if (wanted) wanted = signed_reason(std::move(*wanted));
    const bool drain = is_drained();
    const bool ours = has_our_reason();
    if (drain && !ours) {
      warn("SlurmNodeDrained", fmt::format("Slurm node {} is drained by {}: {}", sides_.slurm_name,
                                           slurm_->reason_set_by.empty() ? "an administrator" : slurm_->reason_set_by,
                                           slurm_->reason.empty() ? "no reason given" : slurm_->reason));
      return;
    }
    // Nothing starts on a node that is down, and a drain would replace the reason of whoever put it down.
    const bool down = slurm_->states.base == slurm::NodeState::kDown || slurm_->states.has(slurm::NodeFlag::kFail);
    if (wanted && down && !drain) return;
    if (wanted) {
      if (!drain || slurm_->reason != *wanted) {
        plan_.state = drained(*wanted);
        say(kube::EventType::kNormal, "SlurmNodeDraining",
            fmt::format("draining Slurm node {}: {}", sides_.slurm_name, *wanted));
      }
    } else if (drain || is_left_down()) {
      plan_.state =
          change_to(is_left_down() ? "RESUME" : "UNDRAIN", signed_reason(schedulable_reason(kube_->meta.key.name)));
      say(kube::EventType::kNormal, "SlurmNodeUndraining",
          fmt::format("Slurm node {} is back in service", sides_.slurm_name));
    }
  }

  // --- stranded ---------------------------------------------------------------------------------------------------
  //
  // slurmctld saves nodes and jobs one after the other. One that is killed between may come back with a node allocated
  // to jobs that it does not know, or knows to have ended. A slurmd's next word mends that; an external node has none,
  // and stays so until a job happens to end there: it never counts as drained, and is never deleted. Slurm lets it go
  // by DOWN alone, which would end a job, so nothing may start there from the look that shows it empty on.

  void watch_stranded() {
    const bool looks = sides_.slurm_known && sides_.jobs_known && slurm_ != nullptr && is_external() && is_ours() &&
                       looks_stranded(*slurm_) && !sides_.allocated_to;
    if (!looks) return memory_.stranded_since.reset();
    if (!memory_.stranded_since) memory_.stranded_since = now_;
    stranded_ = now_ - *memory_.stranded_since >= kStrandedSettles;
    if (!stranded_) wake_at(*memory_.stranded_since + kStrandedSettles);
  }

  // What a process that was killed had drained for it is not given back before it is certain.
  bool drains_for_stranded() const {
    if (!is_drained()) return stranded_;
    return is_drained_by_us() && memory_.stranded_since &&
           (stranded_ || slurm_->reason == stranded_reason(kube_->meta.key.name));
  }

  void free_stranded() {
    std::string note = fmt::format("Slurm node {} is allocated to no job, as a slurmctld that was killed may leave it",
                                   sides_.slurm_name);
    if (is_drained() && !has_our_reason()) {
      note += fmt::format(
          "; when it may be in service again: scontrol update nodename={} state=down reason=stranded, then "
          "state=resume",
          sides_.slurm_name);
    } else {
      note += "; it is drained, put down and resumed";
    }
    warn("SlurmNodeStranded", std::move(note));
    if (!plan_.state && is_drained_by_us() && sides_.drain_listed) put_down();
  }

  void put_down() {
    plan_.state = change_to("DOWN", slurm_->reason);
    wake_at(now_ + kDrainLook);
  }

  // By us: Slurm never finds an external node dead, and who puts one down gives a reason.
  bool is_put_down() const {
    return is_external() && is_ours() && slurm_->states.base == slurm::NodeState::kDown && has_our_reason();
  }

  // --- leaving ----------------------------------------------------------------------------------------------------

  void leave() {
    const bool drain = is_drained();
    if (drain && is_idle(*slurm_) && !is_reserved() && !is_required()) {
      plan_.remove = true;
      if (kube_ != nullptr) {
        say(kube::EventType::kNormal, "SlurmNodeRemoving", fmt::format("removing Slurm node {}", sides_.slurm_name));
      }
      return;
    }
    if (drain && is_idle(*slurm_) && kube_ != nullptr) {
      const std::string over = is_reserved() ? "is removed when its reservation is over" : required_until();
      say(kube::EventType::kNormal, "SlurmNodeRemoving", fmt::format("Slurm node {} {}", sides_.slurm_name, over));
    }
    wake_at(now_ + kDrainLook);
    if (stranded_ && drain && sides_.drain_listed) return put_down();
    const std::string text = removal_reason(sides_.slurm_name);
    // A node that an administrator drained can go as well; the reason stays theirs.
    if (drain && (!has_our_reason() || is_removal_reason(slurm_->reason))) return;
    plan_.state = drained(text);
    if (kube_ != nullptr) {
      say(kube::EventType::kNormal, "SlurmNodeDraining",
          fmt::format("Slurm node {} is drained and will be removed when idle", sides_.slurm_name));
    }
  }

  // --- taint ------------------------------------------------------------------------------------------------------

  void taint() {
    const kube::Taint* present = managed_taint(*kube_);
    const bool leaving = is_ours() && is_external() && !is_labelled();
    if (leaving || is_shared()) {
      memory_.unshared_since.reset();
      if (leaving) return;  // keeps what it has until it is gone from Slurm
      if ((present == nullptr || !(present->value == config_.scheduler_name)) && may_taint()) plan_.taint = true;
      return;
    }
    // Lost by Slurm while it is wanted there: it will be registered again.
    if (present == nullptr || !(present->value == config_.scheduler_name) || is_labelled()) {
      memory_.unshared_since.reset();
      return;
    }
    if (!sides_.slurm_has_nodes && !memory_.removed) {
      warn("SlurmWithoutNodes",
           fmt::format("Slurm lists no nodes at all, so the taint {} stays for now", names::kManagedNodeTaint));
      return;
    }
    if (!memory_.unshared_since) memory_.unshared_since = now_;
    if (now_ - *memory_.unshared_since >= kAbsentSettles) {
      plan_.taint = false;
    } else {
      wake_at(*memory_.unshared_since + kAbsentSettles);
    }
  }

  // What makes a hybrid node known to Slurm may be a pod there: evicted, it takes its jobs with it. The next one is of
  // the same template, so a node that is down, whose next pod may be on its way, is not tainted before it is up.
  bool may_taint() {
    if (is_external()) return true;
    if (!sides_.worker) return slurm_->states.base != slurm::NodeState::kDown;
    warn("SlurmTaintWaits",
         fmt::format(
             "pod {} of NodeSet {} does not tolerate the taint {}, which would evict it and end its jobs, so the "
             "node goes without it and other schedulers may place pods there; add to the NodeSet's "
             "spec.template.spec.tolerations {{key: {}, operator: Exists, effect: NoExecute}}",
             sides_.worker->pod.str(), sides_.worker->of, names::kManagedNodeTaint, names::kManagedNodeTaint));
    return false;
  }

  const Config& config_;
  const Identity& self_;
  const NodeSides& sides_;
  NodeMemory& memory_;
  TimePoint now_;
  const kube::Node* kube_ = nullptr;
  const slurm::Node* slurm_ = nullptr;
  std::optional<NodeMark> mark_;
  bool stranded_ = false;        // for kStrandedSettles
  std::string devices_unknown_;  // why nothing is decided from them yet
  NodePlan plan_;
};

}  // namespace

NodePlan plan_node(const Config& config, const Identity& self, const NodeSides& sides, NodeMemory& memory,
                   TimePoint now) {
  return Planner(config, self, sides, memory, now).run();
}

}  // namespace bascule::bridge

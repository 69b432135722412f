#include "bridge/device_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

bool holds(const ResourceClaim& claim, const std::vector<DeviceId>& devices) {
  return claim.allocated && std::ranges::is_permutation(claim.devices, devices);
}

}  // namespace

void DeviceLedger::changed(const std::string& node) {
  if (on_node) on_node(node);
}

void DeviceLedger::set_unknown(std::string why) {
  if (unknown_ == why) return;
  unknown_ = std::move(why);
  changed({});
}

void DeviceLedger::on_slice(const SlicePtr& before, const SlicePtr& after) {
  if (before && !before->node.empty()) {
    const auto entry = nodes_.find(before->node);
    if (entry != nodes_.end()) {
      std::erase_if(entry->second.slices, [&](const SlicePtr& one) { return one->meta.key == before->meta.key; });
      entry->second.devices.reset();
      if (entry->second.slices.empty()) nodes_.erase(entry);
    }
  }
  if (after && !after->node.empty()) {
    NodeEntry& entry = nodes_[after->node];
    entry.slices.push_back(after);
    entry.devices.reset();
  }
  if (before && !before->node.empty()) changed(before->node);
  if (after && !after->node.empty() && (!before || before->node != after->node)) changed(after->node);
}

void DeviceLedger::on_class(const ClassPtr& before, const ClassPtr& after) {
  const std::string& name = (after ? after : before)->meta.key.name;
  if (drivers_.of_class(name) == nullptr) return;
  if (before && after && before->selectors == after->selectors) {
    classes_.insert_or_assign(name, after);
    return;
  }
  after ? (void)classes_.insert_or_assign(name, after) : (void)classes_.erase(name);
  for (auto& [node, entry] : nodes_) entry.devices.reset();
  changed({});
}

void DeviceLedger::on_claim(const ClaimPtr& before, const ClaimPtr& after) {
  if (before) {
    for (const DeviceId& device : before->devices) {
      const auto held = held_.find(device);
      if (held == held_.end()) continue;
      held->second.erase(before->meta.key);
      if (held->second.empty()) held_.erase(held);
    }
    if (const auto claims = ours_.find(before->pod); claims != ours_.end()) {
      claims->second.erase(before->meta.key);
      if (claims->second.empty()) ours_.erase(claims);
    }
  }
  if (after) {
    for (const DeviceId& device : after->devices) held_[device][after->meta.key] = after->pod;
    if (ours(*after)) ours_[after->pod][after->meta.key] = after;
    const auto assumed = assumed_.find(after->pod);
    const bool its = assumed != assumed_.end() && ours(*after) && assumed->second.ns == after->meta.key.ns;
    if (its && holds(*after, assumed->second.devices)) forget(after->pod);  // an earlier one may be shown late
  }
  const ClaimPtr& any = after ? after : before;
  if (on_our_claim && ours(*any)) on_our_claim(any);
}

const NodeDevices& DeviceLedger::on(const std::string& kube_node) const {
  const auto entry = nodes_.find(kube_node);
  if (entry == nodes_.end()) return none_;
  if (!entry->second.devices) entry->second.devices = devices_of(entry->second.slices, classes_, drivers_);
  return *entry->second.devices;
}

std::string DeviceLedger::shortage(const kube::ResourceList& requests, const std::string& kube_node,
                                   std::string_view slurm_gres) const {
  for (const auto& [name, quantity] : requests) {
    if (!name.view().starts_with(names::kDeviceClassPrefix) || quantity.ceil() <= 0) continue;
    if (!unknown_.empty()) return "cannot be judged: " + unknown_;
    const std::string_view device_class = name.view().substr(names::kDeviceClassPrefix.size());
    const NodeDevices& devices = on(kube_node);
    if (!devices.unknown.empty()) return "has a driver that has not published all its devices yet";
    if (const auto problem = devices.problems.find(device_class); problem != devices.problems.end()) {
      return "cannot give devices of class " + std::string(device_class) + ": " + problem->second;
    }
    if (quantity > Quantity(static_cast<std::int64_t>(devices.count(device_class)))) {
      return "has too few devices of class " + std::string(device_class);
    }
    // Slurm knows nothing of it and would give it to each in turn, since nobody keeps it.
    if (const std::string taint = devices.taint(device_class); !taint.empty()) {
      return "has a device of class " + std::string(device_class) + " with the taint " + taint;
    }
    // No pod could be bound there: an index would mean another device on either side.
    const auto gpus = devices.gpus.find(device_class);
    if (gpus != devices.gpus.end() && gres_count(slurm_gres, device_class) != gpus->second.size()) {
      return "has other devices of class " + std::string(device_class) + " in Slurm than are published";
    }
  }
  return {};
}

bool DeviceLedger::ours(const ResourceClaim& claim) const {
  return !claim.pod.empty() && kube::value_or(claim.meta.annotations, names::kClaimedBy) == bridge_;
}

ClaimPtr DeviceLedger::claim_of(const kube::Pod& pod) const {
  const auto claims = ours_.find(pod.meta.uid);
  if (claims == ours_.end()) return nullptr;
  const auto first = claims->second.lower_bound({pod.meta.key.ns, ""});
  return first == claims->second.end() || first->first.ns != pod.meta.key.ns ? nullptr : first->second;
}

std::string DeviceLedger::holder(const DeviceId& device, const kube::Pod& pod) const {
  const Uid& uid = pod.meta.uid;
  if (const auto held = held_.find(device); held != held_.end()) {
    for (const auto& [claim, owner] : held->second) {
      if (owner != uid || uid.empty() || claim.ns != pod.meta.key.ns) return "claim " + claim.str();
    }
  }
  if (const auto assumed = assumed_by_.find(device); assumed != assumed_by_.end()) {
    if (std::ranges::any_of(assumed->second, [&uid](const Uid& owner) { return owner != uid; })) {
      return "a claim that is being written";
    }
  }
  return {};
}

void DeviceLedger::assume(const kube::Pod& pod, const std::vector<DeviceId>& devices) {
  forget(pod.meta.uid);
  for (const DeviceId& device : devices) assumed_by_[device].insert(pod.meta.uid);
  assumed_.emplace(pod.meta.uid, Assumed{pod.meta.key.ns, devices});
}

void DeviceLedger::forget(const Uid& pod) {
  const auto assumed = assumed_.extract(pod);
  if (assumed.empty()) return;
  for (const DeviceId& device : assumed.mapped().devices) {
    const auto by = assumed_by_.find(device);
    if (by == assumed_by_.end()) continue;  // named twice
    by->second.erase(assumed.key());
    if (by->second.empty()) assumed_by_.erase(by);
  }
}

}  // namespace bascule::bridge

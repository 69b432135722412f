#include "bridge/node_usage.hpp"

#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

bool uses_node(const PodPtr& pod) {
  return pod != nullptr && pod->bound() && !pod->terminal();
}

}  // namespace

void NodeUsage::on_pod(const PodPtr& before, const PodPtr& after) {
  const PodPtr& any = after ? after : before;
  if (!after || after->bound() || after->terminal()) forget(any->meta.uid);
  if (before && before->bound()) leave(std::string(before->node_name.view()), before->meta.uid);
  if (uses_node(before)) add(std::string(before->node_name.view()), *before, -1);
  if (!uses_node(after)) return;
  const std::string node(after->node_name.view());
  add(node, *after, +1);
  if (!(after->scheduler_name == bridge_)) return;  // anybody may write our label on a pod
  if (const JobId job = label_of(*after)) take(node, {after, job, restarts_of(*after)});
}

const std::map<Uid, NodeUsage::Ours>& NodeUsage::ours(const std::string& node) const {
  static const std::map<Uid, Ours> kNone;
  const auto it = ours_.find(node);
  return it == ours_.end() ? kNone : it->second;
}

void NodeUsage::leave(const std::string& node, const Uid& pod) {
  const auto it = ours_.find(node);
  if (it != ours_.end() && it->second.erase(pod) > 0 && it->second.empty()) ours_.erase(it);
}

void NodeUsage::assume(const PodPtr& pod, const std::string& node, JobId job, std::uint32_t restarts) {
  forget(pod->meta.uid);
  assumed_.emplace(pod->meta.uid, std::pair(pod, node));
  add(node, *pod, +1);
  take(node, {pod, job, restarts});
}

void NodeUsage::forget(const Uid& pod) {
  const auto it = assumed_.find(pod);
  if (it == assumed_.end()) return;
  const auto& [assumed, node] = it->second;
  add(node, *assumed, -1);
  leave(node, pod);
  assumed_.erase(it);
}

void NodeUsage::count(Sum& sum, const kube::Pod& pod, int sign) {
  sum.pods += sign;
  for (const auto& [name, quantity] : pod.requests) {
    Quantity& amount = sum.amounts[std::string(name.view())];
    amount = sign > 0 ? amount + quantity : amount - quantity;
  }
  for (const kube::HostPort& port : pod.host_ports) {
    if ((sum.host_ports[port] += sign) == 0) sum.host_ports.erase(port);
  }
  for (const auto& name : pod.claims) {
    const NamespacedName key{pod.meta.key.ns, std::string(name.view())};
    if ((sum.claims[key] += sign) == 0) sum.claims.erase(key);
  }
}

// One without an address is every address's.
bool NodeUsage::is_taken(const Sum& sum, const kube::HostPort& port) {
  const auto first = sum.host_ports.lower_bound({port.number, port.protocol, {}});
  for (auto one = first; one != sum.host_ports.end(); ++one) {
    const auto& [taken, pods] = *one;
    if (taken.number != port.number || taken.protocol != port.protocol) return false;
    if (taken.ip.empty() || port.ip.empty() || taken.ip == port.ip) return true;
  }
  return false;
}

void NodeUsage::add(const std::string& node, const kube::Pod& pod, int sign) {
  Sum& sum = nodes_[node];
  count(sum, pod, sign);
  if (sum.pods == 0) nodes_.erase(node);
}

std::set<NamespacedName> NodeUsage::claims(const std::string& node, const std::vector<PodPtr>& beside) const {
  Sum sum;
  if (const auto it = nodes_.find(node); it != nodes_.end()) sum.claims = it->second.claims;
  for (const PodPtr& other : beside) count(sum, *other, +1);
  std::set<NamespacedName> out;
  for (const auto& [key, pods] : sum.claims) out.insert(key);
  return out;
}

std::string NodeUsage::shortage(const kube::Pod& pod, const kube::Node& node, const std::vector<PodPtr>& beside) const {
  const auto it = nodes_.find(node.meta.key.name);
  Sum with;
  // It may have its place there already.
  const auto own = assumed_.find(pod.meta.uid);
  const bool there = own != assumed_.end() && own->second.second == node.meta.key.name;
  const bool other_sum = it == nodes_.end() || !beside.empty() || there;
  if (it != nodes_.end() && other_sum) with = it->second;
  if (there) count(with, *own->second.first, -1);
  for (const PodPtr& other : beside) count(with, *other, +1);
  const Sum& sum = other_sum ? with : it->second;
  const Quantity limit = kube::amount(node.allocatable, "pods");
  if (limit < Quantity(sum.pods + 1)) return "pods (limit " + limit.str() + ")";
  for (const auto& [name, quantity] : pod.requests) {
    if (name.view().starts_with(names::kDeviceClassPrefix)) continue;
    const auto used = sum.amounts.find(std::string(name.view()));
    const Quantity total = used == sum.amounts.end() ? quantity : used->second + quantity;
    if (total > kube::amount(node.allocatable, name.view())) return std::string(name.view());
  }
  for (const kube::HostPort& port : pod.host_ports) {
    if (is_taken(sum, port)) return "host port " + print(port);
  }
  return {};
}

}  // namespace bascule::bridge

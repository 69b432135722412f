// What the pods on each node ask for together, kept up change by change: does one more fit, so that kubelet will not
// turn it away? Counts every pod that is bound and not over, ours or not, and those we have just bound and not yet seen
// back. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "bridge/unit.hpp"

namespace bascule::bridge {

class NodeUsage final {
 public:
  // The scheduler's name: its pods are ours.
  void set_bridge(std::string name) { bridge_ = std::move(name); }
  // A change of one pod as an informer tells it; either side may be null.
  void on_pod(const PodPtr& before, const PodPtr& after);
  // Bound by us; counted until the informer shows the pod bound or gone, or forget() says that binding failed.
  void assume(const PodPtr& pod, const std::string& node, JobId job, std::uint32_t restarts);
  void forget(const Uid& pod);
  // A pod of ours that is on a node and has not ended; the job that gave it the node, and its restarts until then.
  struct Ours {
    PodPtr pod;
    JobId job;
    std::uint32_t restarts = 0;
  };
  const std::map<Uid, Ours>& ours(const std::string& node) const;
  // PersistentVolumeClaims of pods that are on this node, and of `beside`.
  std::set<NamespacedName> claims(const std::string& node, const std::vector<PodPtr>& beside) const;
  // Empty: `pod` fits beside what runs there and `beside`. Otherwise what is short.
  std::string shortage(const kube::Pod& pod, const kube::Node& node, const std::vector<PodPtr>& beside = {}) const;

 private:
  struct Sum {
    std::unordered_map<std::string, Quantity> amounts;
    std::map<kube::HostPort, int> host_ports;
    std::map<NamespacedName, int> claims;
    std::int64_t pods = 0;
  };
  static void count(Sum& sum, const kube::Pod& pod, int sign);
  void add(const std::string& node, const kube::Pod& pod, int sign);
  void take(const std::string& node, Ours pod) { ours_[node].insert_or_assign(pod.pod->meta.uid, std::move(pod)); }
  void leave(const std::string& node, const Uid& pod);
  static bool is_taken(const Sum& sum, const kube::HostPort& port);
  std::string bridge_;
  std::unordered_map<std::string, Sum> nodes_;
  std::unordered_map<std::string, std::map<Uid, Ours>> ours_;
  std::unordered_map<Uid, std::pair<PodPtr, std::string>> assumed_;
};

}  // namespace bascule::bridge

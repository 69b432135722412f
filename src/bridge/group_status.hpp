// The condition PodGroupScheduled of a scheduling.k8s.io PodGroup: True while every live member has its node, False
// again when one lost it. (The other kinds of groups have controllers of their own.) Source: Kubernetes "Workload API",
// PodGroup status.
#pragma once

#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "bridge/unit.hpp"
#include "kube/client.hpp"

namespace bascule::bridge {

// nullopt: no live member, or none of ours yet; the condition stays as it is.
std::optional<bool> group_scheduled(const std::vector<PodPtr>& pods);

class GroupStatus final {
 public:
  // `client` outlives this.
  GroupStatus(kube::Client& client, std::string scheduler) : client_(client), scheduler_(std::move(scheduler)) {}

  // Whether there may be something to write. Never for other kinds of groups.
  bool untold(const Group& group, const std::vector<PodPtr>& pods) const;
  // Writes the condition where it says something else.
  Task<> tell(Group group, std::vector<PodPtr> pods, std::stop_token stop);
  void forget(const Uid& unit) { said_.erase(unit); }

 private:
  kube::Client& client_;
  std::string scheduler_;
  std::unordered_map<Uid, bool> said_;
};

// The resource of a group's kind.
const kube::Resource& resource_of(GroupKind kind);

}  // namespace bascule::bridge

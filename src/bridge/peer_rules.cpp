#include "bridge/peer_rules.hpp"

#include <fmt/format.h>

#include "bridge/names.hpp"

namespace bascule::bridge {

std::vector<std::string> peer_faults(const kube::PeerRules& rules, bool exclusive) {
  using AntiAffinity = kube::PeerRules::AntiAffinity;
  constexpr std::string_view kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
  constexpr std::string_view kRemedy = "remove it, or use a Slurm topology and constraints";
  std::vector<std::string> faults;
  if (rules.spread) {
    faults.push_back(
        fmt::format("spec.topologySpreadConstraints is not supported, since Slurm chooses the nodes; {}", kRemedy));
  }
  if (rules.affinity) {
    faults.push_back(fmt::format("spec.affinity.podAffinity.{} is not supported, since Slurm chooses the nodes; {}",
                                 kRequired, kRemedy));
  }
  if (rules.anti_affinity == AntiAffinity::kWider) {
    faults.push_back(
        fmt::format("spec.affinity.podAntiAffinity.{} is supported with the topologyKey {} alone, since Slurm chooses "
                    "the nodes; {}",
                    kRequired, kube::kHostTopology, kRemedy));
  } else if (rules.anti_affinity == AntiAffinity::kOfHosts && !exclusive) {
    faults.push_back(
        fmt::format("spec.affinity.podAntiAffinity.{} needs a job that does not share its nodes; remove it, or the "
                    "annotation {}exclusive",
                    kRequired, names::kJobPrefix));
  }
  return faults;
}

}  // namespace bascule::bridge

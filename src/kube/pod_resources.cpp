#include "kube/pod_resources.hpp"

#include <algorithm>

namespace bascule::kube {

namespace {

bool by_name(const ResourceList::value_type& a, const ResourceList::value_type& b) noexcept {
  return a.first.view() < b.first.view();
}

// join(mine, theirs) where both have a name; what only `other` has is taken as it is.
template <class Join>
void merge(ResourceList& into, const ResourceList& other, Join join) {
  for (const auto& entry : other) {
    const auto at = std::ranges::lower_bound(into, entry, by_name);
    if (at != into.end() && at->first == entry.first) {
      join(at->second, entry.second);
    } else {
      into.insert(at, entry);
    }
  }
}

bool counts_at_pod_level(std::string_view name) noexcept {
  return name == "cpu" || name == "memory" || name.starts_with("hugepages-");
}

void overrule(ResourceList& sum, const ResourceList& pod_level) {
  for (const auto& entry : pod_level) {
    if (!counts_at_pod_level(entry.first.view())) continue;
    merge(sum, {entry}, [](Quantity& mine, const Quantity& theirs) { mine = theirs; });
  }
}

// The containers' part: all that run together, or the init container that needs most beside the sidecars before it.
ResourceList of_containers(const PodNeeds& needs, ResourceList ContainerNeeds::* which) {
  ResourceList sum;
  for (const ContainerNeeds& container : needs.containers) add_to(sum, container.*which);
  ResourceList sidecars;
  ResourceList most;
  for (const ContainerNeeds& container : needs.init) {
    if (container.sidecar) {
      add_to(sum, container.*which);
      add_to(sidecars, container.*which);
      raise_to(most, sidecars);
    } else {
      ResourceList moment = sidecars;
      add_to(moment, container.*which);
      raise_to(most, moment);
    }
  }
  raise_to(sum, most);
  return sum;
}

}  // namespace

void PodNeeds::clear() {
  containers.clear();
  init.clear();
  overhead.clear();
  pod_requests.clear();
  pod_limits.clear();
}

void sort_by_name(ResourceList& list) {
  if (!std::ranges::is_sorted(list, by_name)) std::ranges::sort(list, by_name);
}

void add_to(ResourceList& sum, const ResourceList& more) {
  merge(sum, more, [](Quantity& mine, const Quantity& theirs) { mine += theirs; });
}

void raise_to(ResourceList& most, const ResourceList& other) {
  merge(most, other, [](Quantity& mine, const Quantity& theirs) {
    if (theirs > mine) mine = theirs;
  });
}

ResourceList effective_requests(const PodNeeds& needs) {
  ResourceList sum = of_containers(needs, &ContainerNeeds::requests);
  overrule(sum, needs.pod_requests);
  add_to(sum, needs.overhead);
  return sum;
}

ResourceList effective_limits(const PodNeeds& needs) {
  ResourceList sum = of_containers(needs, &ContainerNeeds::limits);
  overrule(sum, needs.pod_limits);
  for (const auto& entry : needs.overhead) {
    for (auto& [name, quantity] : sum) {
      if (name == entry.first && !quantity.zero()) quantity += entry.second;
    }
  }
  return sum;
}

}  // namespace bascule::kube

// What a pod needs as the scheduler counts it. Source: "Resource Management for Pods and Containers", "Sidecar
// Containers" (sum with sidecars against the largest init container), "Pod Overhead", "Pod-level resources".
#pragma once

#include <vector>

#include "kube/objects.hpp"

namespace bascule::kube {

struct ContainerNeeds {
  ResourceList requests;
  ResourceList limits;
  bool sidecar = false;  // an init container with restartPolicy Always
};

struct PodNeeds {
  std::vector<ContainerNeeds> containers;
  std::vector<ContainerNeeds> init;  // in the order of the pod: a sidecar counts for those after it
  ResourceList overhead;
  // spec.resources: takes the place of what the containers add up to, for cpu, memory and hugepages-*.
  ResourceList pod_requests;
  ResourceList pod_limits;

  void clear();
};

ResourceList effective_requests(const PodNeeds& needs);
// Overhead is added only to what is limited at all.
ResourceList effective_limits(const PodNeeds& needs);

// Both lists sorted by name, as every ResourceList.
void add_to(ResourceList& sum, const ResourceList& more);
void raise_to(ResourceList& most, const ResourceList& other);
void sort_by_name(ResourceList& list);

}  // namespace bascule::kube

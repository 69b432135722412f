#include "kube/pod_resources.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace bascule::kube {
namespace {

struct PodResources : testing::Test {
  json::Interner interner;

  ResourceList list(std::initializer_list<std::pair<const char*, const char*>> entries) {
    ResourceList out;
    for (const auto& [name, text] : entries) out.emplace_back(interner(name), *Quantity::parse(text));
    sort_by_name(out);
    return out;
  }
  ContainerNeeds container(const char* cpu, bool sidecar = false) {
    return {.requests = list({{"cpu", cpu}}), .limits = list({{"cpu", cpu}}), .sidecar = sidecar};
  }
  static std::string print(const ResourceList& list) {
    std::string out;
    for (const auto& [name, quantity] : list) {
      out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, quantity.str());
    }
    return out;
  }
};

TEST_F(PodResources, containers_add_up) {
  PodNeeds needs;
  EXPECT_EQ(print(effective_requests(needs)), "");
  needs.containers = {{.requests = list({{"cpu", "500m"}, {"memory", "1Gi"}}), .limits = {}},
                      {.requests = list({{"cpu", "1"}, {"nvidia.com/gpu", "2"}}), .limits = list({{"cpu", "2"}})}};
  EXPECT_EQ(print(effective_requests(needs)), "cpu=1500m memory=1Gi nvidia.com/gpu=2");
  EXPECT_EQ(print(effective_limits(needs)), "cpu=2");
}

TEST_F(PodResources, the_largest_init_container_counts_when_it_needs_more) {
  PodNeeds needs;
  needs.containers = {container("1"), container("1")};
  needs.init = {container("3"), container("1500m")};
  EXPECT_EQ(print(effective_requests(needs)), "cpu=3");
  needs.init = {container("1500m"), container("1")};
  EXPECT_EQ(print(effective_requests(needs)), "cpu=2");
}

// The example of "Sidecar Containers": a sidecar runs beside what comes after it, init containers included.
TEST_F(PodResources, sidecars_run_beside_what_follows) {
  PodNeeds needs;
  needs.containers = {container("1")};
  needs.init = {container("2"), container("500m", true), container("3"), container("1", true)};
  // Moments: 2; 0.5; 3 + 0.5; 1.5; and at last 1 + 0.5 + 1.
  EXPECT_EQ(print(effective_requests(needs)), "cpu=3500m");
  needs.containers = {container("4")};
  EXPECT_EQ(print(effective_requests(needs)), "cpu=5500m");
  // An init container before the sidecar does not run beside it.
  needs.init = {container("6"), container("500m", true)};
  EXPECT_EQ(print(effective_requests(needs)), "cpu=6");
}

TEST_F(PodResources, pod_level_takes_the_place_of_the_sum) {
  PodNeeds needs;
  needs.containers = {{.requests = list({{"cpu", "1"}, {"nvidia.com/gpu", "1"}}), .limits = list({{"cpu", "1"}})}};
  needs.pod_requests = list({{"cpu", "4"}, {"memory", "2Gi"}, {"nvidia.com/gpu", "7"}});
  needs.pod_limits = list({{"hugepages-2Mi", "4Mi"}});
  EXPECT_EQ(print(effective_requests(needs)), "cpu=4 memory=2Gi nvidia.com/gpu=1");
  EXPECT_EQ(print(effective_limits(needs)), "cpu=1 hugepages-2Mi=4Mi");
}

TEST_F(PodResources, overhead_comes_on_top) {
  PodNeeds needs;
  needs.containers = {{.requests = list({{"cpu", "1"}}), .limits = list({{"cpu", "0"}, {"memory", "1Gi"}})}};
  needs.overhead = list({{"cpu", "250m"}, {"memory", "120Mi"}});
  EXPECT_EQ(print(effective_requests(needs)), "cpu=1250m memory=120Mi");
  EXPECT_EQ(print(effective_limits(needs)), "cpu=0 memory=1144Mi");
  needs.pod_requests = list({{"cpu", "2"}});
  EXPECT_EQ(print(effective_requests(needs)), "cpu=2250m memory=120Mi");
}

}  // namespace
}  // namespace bascule::kube

#include "operator/webhook/binding.hpp"

#include <gtest/gtest.h>

namespace bascule::op {
namespace {

json::Value thing(std::string_view metadata) {
  return json::Object{{"metadata", json::parse(metadata)}};
}

const json::Value kWorker = thing(R"({"uid":"u1","labels":{"app.kubernetes.io/name":"slurmd"}})");
const json::Value kNode = thing(R"({"annotations":{"topology.slinky.slurm.net/spec":"topo-switch:s2,topo-block:b2"}})");

TEST(binding, a_worker_learns_the_topology_of_its_node) {  // A53: it had no annotation at all
  const auto patch = binding_patch(kWorker, kNode);
  ASSERT_TRUE(patch);
  EXPECT_EQ(
      json::dump(*patch),
      R"({"metadata":{"annotations":{"topology.slinky.slurm.net/spec":"topo-switch:s2,topo-block:b2"},"uid":"u1"}})");
}

TEST(binding, nothing_to_write) {
  EXPECT_FALSE(binding_patch(thing(R"({"labels":{"app.kubernetes.io/name":"slurmctld"}})"), kNode));
  EXPECT_FALSE(binding_patch(thing("{}"), kNode));
  EXPECT_FALSE(binding_patch(kWorker, thing("{}")));
  const json::Value told = thing(
      R"({"labels":{"app.kubernetes.io/name":"slurmd"},"annotations":{"topology.slinky.slurm.net/spec":"topo-switch:s2,topo-block:b2"}})");
  EXPECT_FALSE(binding_patch(told, kNode));
}

TEST(binding, an_old_topology_is_cleared) {
  const json::Value told =
      thing(R"({"labels":{"app.kubernetes.io/name":"slurmd"},"annotations":{"topology.slinky.slurm.net/spec":"a"}})");
  const auto patch = binding_patch(told, thing("{}"));
  ASSERT_TRUE(patch);
  EXPECT_EQ(json::string_at(*patch, {"metadata", "annotations", "topology.slinky.slurm.net/spec"}, "absent"), "");
}

TEST(binding, what_is_no_topology_is_not_copied) {  // A13: it would become a shell's argument
  EXPECT_FALSE(binding_patch(kWorker, thing(R"({"annotations":{"topology.slinky.slurm.net/spec":"a'; reboot '"}})")));
}

}  // namespace
}  // namespace bascule::op

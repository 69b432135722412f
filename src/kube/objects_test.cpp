#include "kube/objects.hpp"

#include <gtest/gtest.h>

#include "base/time.hpp"
#include "json/error.hpp"
#include "kube/sample_pod.hpp"

namespace bascule::kube {
namespace {

std::string print(const ResourceList& list) {
  std::string out;
  for (const auto& [name, quantity] : list) out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, quantity.str());
  return out;
}

struct Objects : testing::Test {
  json::Interner interner;
};

TEST_F(Objects, a_pod_as_the_server_writes_it) {
  const auto pod = decode_pod(sample_pod(7), interner);
  EXPECT_EQ(pod->meta.key.str(), "team-7/trainer-00007-7d9f8b6c5d-00007");
  EXPECT_EQ(pod->meta.resource_version, "1007");
  EXPECT_EQ(pod->meta.generation, 1);
  EXPECT_EQ(pod->meta.created, parse_rfc3339("2026-01-05T10:00:00Z"));
  EXPECT_FALSE(pod->deleting());
  EXPECT_EQ(value_or(pod->meta.labels, "team"), "team-7");
  EXPECT_EQ(find(pod->meta.labels, "none"), nullptr);
  ASSERT_NE(pod->meta.controller(), nullptr);
  EXPECT_EQ(pod->meta.controller()->kind, "Job");
  EXPECT_TRUE(pod->meta.has_finalizer("batch.kubernetes.io/job-tracking"));
  EXPECT_EQ(pod->scheduler_name, "slurm-bridge-scheduler");
  EXPECT_EQ(pod->node_name, "gpu-node-007");
  EXPECT_TRUE(pod->bound());
  EXPECT_EQ(pod->priority, 1000);
  EXPECT_EQ(print(pod->requests), "cpu=7 memory=32Gi nvidia.com/gpu=2");
  EXPECT_EQ(print(pod->limits), "cpu=8 memory=32Gi nvidia.com/gpu=2");
  EXPECT_EQ(value_or(pod->node_selector, "pool"), "gpu");
  ASSERT_EQ(pod->tolerations.size(), 3U);
  EXPECT_TRUE(pod->tolerations[0].exists);
  EXPECT_EQ(pod->phase, PodPhase::kRunning);
  EXPECT_TRUE(pod->scheduled.present);
  EXPECT_EQ(pod->grace_seconds, 30);
  const std::size_t size = sample_pod(7).size();
  EXPECT_GT(size, 7500U);
  EXPECT_LT(size, 8500U);
}

TEST_F(Objects, what_a_pod_may_have_besides) {
  const auto pod = decode_pod(
      R"({"spec":{
        "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]}}},
        "volumes":[{"name":"scratch","ephemeral":{}},{"name":"d","persistentVolumeClaim":{"claimName":"data"}},{"name":"e","emptyDir":{}}],
        "schedulingGates":[{"name":"wait"}],"resourceClaims":[{"name":"gpu"}],
        "schedulingGroup":{"podGroupName":"g"},"activeDeadlineSeconds":60,
        "initContainers":[{"ports":[{"hostPort":1}]},{"ports":[{"hostPort":2}],"restartPolicy":"Always"}],
        "containers":[{"ports":[{"containerPort":5,"hostPort":3,"protocol":"UDP","hostIP":"10.0.0.1"},
          {"containerPort":6},{"hostPort":4,"protocol":"TCP","hostIP":"0.0.0.0"}]}],
        "terminationGracePeriodSeconds":50},
       "status":{"phase":"Pending","reason":"Evicted","nominatedNodeName":"n1",
        "conditions":[{"status":"False","message":"no room","reason":"Unschedulable","type":"PodScheduled"},
         {"status":"True","type":"Initialized"},{"status":"False","message":"lost","type":"example.com/Known"}]},
       "metadata":{"name":"p","deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":5,"labels":null,
        "annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}","z":"","a":"1"}}})",
      interner);
  EXPECT_EQ(pod->required_node_affinity,
            R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Exists"}]}]})");
  ASSERT_EQ(pod->claims.size(), 2U);
  EXPECT_EQ(pod->claims[0], "data");
  EXPECT_EQ(pod->claims[1], "p-scratch");
  ASSERT_EQ(pod->scheduling_gates.size(), 1U);
  EXPECT_TRUE(pod->has_resource_claims);
  EXPECT_EQ(pod->scheduling_group, "g");
  EXPECT_EQ(pod->active_deadline_seconds, 60);
  EXPECT_EQ(pod->host_ports,
            (std::vector<HostPort>{{2}, {3, Protocol::kUdp, interner("10.0.0.1")}, {4, Protocol::kTcp, {}}}));
  EXPECT_EQ(pod->grace_seconds, 5);
  EXPECT_TRUE(pod->deleting());
  EXPECT_EQ(pod->scheduled.reason, "Unschedulable");
  EXPECT_EQ(pod->scheduled.message, "no room");
  ASSERT_EQ(pod->conditions.size(), 1U);
  EXPECT_EQ(pod->conditions[0].first, "example.com/Known");
  EXPECT_EQ(pod->conditions[0].second.message, "lost");
  EXPECT_EQ(pod->status_reason, "Evicted");
  ASSERT_EQ(pod->meta.annotations.size(), 2U);
  ASSERT_NE(find(pod->meta.annotations, "z"), nullptr);
  EXPECT_EQ(value_or(pod->meta.annotations, "a"), "1");
}

TEST_F(Objects, what_a_pod_requires_of_its_place_by_other_pods) {
  const auto rules = [this](std::string_view spec) {
    return decode_pod(R"({"metadata":{"name":"p"},"spec":)" + std::string(spec) + "}", interner)->peers;
  };
  const auto required = [&](std::string_view affinity, std::string_view terms) {
    std::string spec = R"({"affinity":{")";
    spec.append(affinity).append(R"(":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}],)");
    spec.append(R"("requiredDuringSchedulingIgnoredDuringExecution":)").append(terms).append("}}}");
    return rules(spec);
  };
  using AntiAffinity = PeerRules::AntiAffinity;
  constexpr const char* kHost = R"({"labelSelector":{},"topologyKey":"kubernetes.io/hostname"})";
  constexpr const char* kZone = R"({"topologyKey":"topology.kubernetes.io/zone"})";
  EXPECT_EQ(rules(R"({"topologySpreadConstraints":[]})"), PeerRules{});
  EXPECT_EQ(rules(R"({"topologySpreadConstraints":[{"maxSkew":1}]})"), PeerRules{.spread = true});
  EXPECT_EQ(rules(R"({"affinity":{"podAffinity":null,"podAntiAffinity":{}}})"), PeerRules{});
  for (const char* none : {"[]", "null"}) {
    EXPECT_EQ(required("podAffinity", none), PeerRules{}) << none;
    EXPECT_EQ(required("podAntiAffinity", none), PeerRules{}) << none;
  }
  EXPECT_EQ(required("podAffinity", "[{}]"), PeerRules{.affinity = true});
  const auto anti = [&](std::string terms) { return required("podAntiAffinity", "[" + terms + "]").anti_affinity; };
  EXPECT_EQ(anti(kHost), AntiAffinity::kOfHosts);
  EXPECT_EQ(anti(std::string(kHost) + "," + kHost), AntiAffinity::kOfHosts);
  for (const std::string& wider :
       {std::string(kZone), kZone + std::string(",") + kHost, kHost + std::string(",") + kZone, std::string("{}")}) {
    EXPECT_EQ(anti(wider), AntiAffinity::kWider) << wider;
  }
}

TEST_F(Objects, faults_name_their_place) {
  const auto fault = [&](std::string_view text) {
    try {
      decode_pod(text, interner);
    } catch (const json::ShapeError& error) {
      return error.path();
    }
    return std::string("none");
  };
  EXPECT_EQ(fault(R"({"spec":{"containers":[{},{"resources":{"requests":{"cpu":"two"}}}]}})"),
            "spec.containers[1].resources.requests.cpu");
  EXPECT_EQ(fault(R"({"metadata":{"creationTimestamp":"yesterday"}})"), "metadata.creationTimestamp");
  EXPECT_EQ(fault(R"({"spec":{"nodeName":5}})"), "spec.nodeName");
  EXPECT_EQ(fault(R"({"spec":{"containers":[]}})"), "none");
  EXPECT_THROW(decode_pod("{", interner), json::ParseError);
}

TEST_F(Objects, a_node) {
  const auto node = decode_node(
      R"({"metadata":{"name":"n1"},"spec":{"unschedulable":true,"taints":[{"key":"k","effect":"NoSchedule","value":"v"}]},
        "status":{"capacity":{"cpu":"8"},"allocatable":{"memory":"1Gi","cpu":7.5},
        "addresses":[{"address":"n1","type":"Hostname"},{"address":"10.0.0.1","type":"InternalIP"},{"type":"InternalIP","address":"fd00::1"}],
        "conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True","reason":"KubeletReady"}]}})",
      interner);
  EXPECT_TRUE(node->unschedulable);
  ASSERT_EQ(node->taints.size(), 1U);
  EXPECT_EQ(node->taints[0].value, "v");
  EXPECT_EQ(print(node->allocatable), "cpu=7500m memory=1Gi");
  EXPECT_EQ(amount(node->capacity, "cpu"), Quantity(8));
  EXPECT_EQ(amount(node->capacity, "gpu"), Quantity());
  EXPECT_EQ(node->internal_ip, "10.0.0.1");
  EXPECT_EQ(node->ready.reason, "KubeletReady");
}

TEST_F(Objects, a_job) {
  const auto job = decode_job(
      R"({"metadata":{"name":"j","namespace":"a"},"spec":{"parallelism":4,"activeDeadlineSeconds":90,
        "template":{"spec":{"resources":{"limits":{"cpu":"2"},"requests":{"memory":"1Gi"}},"containers":[]}}}})",
      interner);
  EXPECT_EQ(job->active_deadline_seconds, 90);
  EXPECT_EQ(print(job->template_limits), "cpu=2");
}

TEST_F(Objects, any_kind) {
  const auto object = decode_dynamic(
      R"({"kind":"JobSet","metadata":{"name":"x","namespace":"a","managedFields":[{}]},"spec":{"n":1}})", interner);
  EXPECT_EQ(object->meta.key.str(), "a/x");
  EXPECT_EQ(json::int_at(object->value, {"spec", "n"}), 1);
  EXPECT_EQ(json::find(object->value, {"metadata", "managedFields"}), nullptr);
}

TEST_F(Objects, tolerations_cover_taints) {
  const Taint taint{interner("k"), interner("v"), interner("NoSchedule")};
  const auto toleration = [&](std::string_view key, std::string_view value, std::string_view effect, bool exists) {
    return Toleration{interner(key), interner(value), interner(effect), exists};
  };
  EXPECT_TRUE(tolerates(toleration("k", "v", "NoSchedule", false), taint));
  EXPECT_TRUE(tolerates(toleration("k", "v", "", false), taint));
  EXPECT_TRUE(tolerates(toleration("k", "", "", true), taint));
  EXPECT_TRUE(tolerates(toleration("", "", "", true), taint));
  EXPECT_FALSE(tolerates(toleration("", "", "", false), taint));
  EXPECT_FALSE(tolerates(toleration("k", "w", "", false), taint));
  EXPECT_FALSE(tolerates(toleration("k", "v", "NoExecute", false), taint));
  EXPECT_FALSE(tolerates(toleration("j", "", "", true), taint));
}

}  // namespace
}  // namespace bascule::kube

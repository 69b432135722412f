#include "operator/builders/overlay.hpp"

#include <gtest/gtest.h>

#include <random>

#include "json/yaml.hpp"
#include "operator/api/read.hpp"
#include "operator/builders/pod.hpp"
#include "operator/config/sample_test.hpp"

namespace bascule::op {
namespace {

json::Value yaml(std::string_view text) {
  return json::parse_yaml(text);
}

const Meta kMeta = [] {
  Meta meta;
  meta.ns = "slurm";
  meta.name = "gpu";
  return meta;
}();
const Subject kSubject{"NodeSet", kMeta};

std::string container(std::string_view base, std::string_view patch) {
  return json::dump(overlay_container(yaml(base), yaml(patch), kSubject, "spec.slurmd"));
}
std::string pod(std::string_view base, std::string_view patch) {
  return json::dump(overlay_pod_spec(yaml(base), yaml(patch), kSubject));
}
std::string json_of(std::string_view text) {
  return json::dump(yaml(text));
}
template <class Call>
std::string sentence(Call call) {
  try {
    call();
  } catch (const BadObject& fault) {
    return fault.what();
  }
  return "";
}

TEST(OverlayContainerTest, ArgumentsAddUpAndLimitsMerge) {
  EXPECT_EQ(container("{name: foo, args: [-a, -b], resources: {limits: {cpu: 250m, memory: 500Mi}}, "
                      "imagePullPolicy: Always}",
                      "{name: bar, image: i, args: [-c], resources: {limits: {cpu: 100m}}}"),
            json_of("{name: foo, args: [-a, -b, -c], resources: {limits: {cpu: 100m, memory: 500Mi}}, "
                    "imagePullPolicy: Always, image: i}"));
}

TEST(OverlayContainerTest, ZeroValuesCount) {
  // A16.
  EXPECT_EQ(container("{name: c, securityContext: {privileged: true, runAsUser: 401}}",
                      "{securityContext: {privileged: false, runAsUser: 0}, workingDir: \"\"}"),
            json_of("{name: c, securityContext: {privileged: false, runAsUser: 0}, workingDir: \"\"}"));
  EXPECT_EQ(container("{name: c, image: i}", "{image: null, $patch: delete, env: null}"),
            json_of("{name: c, image: i}"));
}

TEST(OverlayContainerTest, ProbesHaveOneHandler) {
  constexpr std::string_view kBase =
      "{name: c, livenessProbe: {httpGet: {path: /livez, port: p}, failureThreshold: 6, periodSeconds: 10}}";
  EXPECT_EQ(container(kBase, "livenessProbe: {exec: {command: [\"true\"]}}"),
            json_of("{name: c, livenessProbe: {failureThreshold: 6, periodSeconds: 10, exec: {command: [\"true\"]}}}"));
  // A17: thresholds alone keep the handler.
  EXPECT_EQ(
      container(kBase, "livenessProbe: {failureThreshold: 3, periodSeconds: 5}"),
      json_of("{name: c, livenessProbe: {httpGet: {path: /livez, port: p}, failureThreshold: 3, periodSeconds: 5}}"));
  EXPECT_EQ(container("{name: c}", "readinessProbe: {tcpSocket: {port: 1}}"),
            json_of("{name: c, readinessProbe: {tcpSocket: {port: 1}}}"));
}

TEST(OverlayContainerTest, HooksAndVariablesHaveOneSource) {
  // A18.
  EXPECT_EQ(container("{name: c, lifecycle: {preStop: {exec: {command: [a]}}}}",
                      "lifecycle: {preStop: {sleep: {seconds: 5}}}"),
            json_of("{name: c, lifecycle: {preStop: {sleep: {seconds: 5}}}}"));
  EXPECT_EQ(
      container("{name: c, env: [{name: A, value: \"1\"}, {name: B, value: \"2\"}]}",
                "env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]"),
      json_of("{name: c, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}, {name: B, value: \"2\"}]}"));
}

TEST(OverlayContainerTest, OurPortStays) {
  // A20.
  EXPECT_EQ(container("{name: c, ports: [{name: slurmd, containerPort: 6818, protocol: TCP}]}",
                      "ports: [{name: slurmd, containerPort: 7000, hostPort: 1}, {name: x, containerPort: 80}, "
                      "{name: y, containerPort: 80, protocol: UDP}]"),
            json_of("{name: c, ports: [{name: slurmd, containerPort: 6818, protocol: TCP, hostPort: 1}, "
                    "{name: x, containerPort: 80}, {name: y, containerPort: 80, protocol: UDP}]}"));
}

TEST(OverlayContainerTest, CapabilitiesOfOursStay) {
  // A19.
  EXPECT_EQ(container("{name: c, securityContext: {capabilities: {add: [BPF]}}}",
                      "securityContext: {capabilities: {add: [NET_RAW], drop: [ALL]}}"),
            json_of("{name: c, securityContext: {capabilities: {add: [NET_RAW, BPF], drop: [ALL]}}}"));
}

TEST(OverlayPodTest, ContainersMergeByName) {
  // A20.
  EXPECT_EQ(
      pod("containers: [{name: slurmd, image: a}]", "containers: [{name: x, image: b}, {name: slurmd, tty: true}]"),
      json_of("containers: [{name: slurmd, image: a, tty: true}, {name: x, image: b}]"));
  EXPECT_EQ(pod("{initContainers: [{name: logfile}]}", "initContainers: []"),
            json_of("{initContainers: [{name: logfile}]}"));
}

TEST(OverlayPodTest, VolumesHaveOneSource) {
  EXPECT_EQ(pod("{containers: [], volumes: [{name: run, emptyDir: {}}]}",
                "volumes: [{name: run, hostPath: {path: /r}}, {name: more, emptyDir: {}}]"),
            json_of("{containers: [], volumes: [{name: run, hostPath: {path: /r}}, {name: more, emptyDir: {}}]}"));
}

TEST(OverlayPodTest, WhatWeNeedIsPutBack) {
  const json::Value spec =
      overlay_pod_spec(yaml("{tolerations: [{key: w}], dnsConfig: {searches: [ours]}}"),
                       yaml("{tolerations: [], dnsConfig: {searches: [theirs]}, affinity: {podAntiAffinity: "
                            "{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone}]}}}"),
                       kSubject);
  EXPECT_EQ(json::dump(*json::find(spec, {"tolerations"})), R"([{"key":"w"}])");
  EXPECT_EQ(json::dump(*json::find(spec, {"dnsConfig", "searches"})), R"(["theirs","ours"])");
  json::Value apart = spec;
  require_apart(apart, {}, kSubject);
  EXPECT_EQ(
      json::array_at(apart, {"affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"})->size(),
      2U);
}

TEST(OverlayTest, MistakesGetASentence) {
  EXPECT_EQ(sentence([] { container("{name: c}", "args: -v"); }),
            "NodeSet slurm/gpu: spec.slurmd.args is no list; write its items with dashes");
  EXPECT_EQ(sentence([] { container("{name: c, env: [{name: A}]}", "env: {A: b}"); }),
            "NodeSet slurm/gpu: spec.slurmd.env is no list; write its items with dashes");
  EXPECT_EQ(sentence([] { pod("containers: [{name: c}]", "containers: [{image: x}]"); }),
            "NodeSet slurm/gpu: spec.template.spec.containers has a container without a name; give it one");
  EXPECT_NE(sentence([] { container("{name: c, env: [{name: A}]}", "env: [{value: b}]"); }), "");
}

// Whatever users write: the daemon's container, its name, port and needed tolerations are there, or a sentence is.
TEST(OverlayPropertyTest, NothingRequiredIsEverLost) {
  const std::vector<std::string_view> patches{"{}",
                                              "containers: []",
                                              "containers: [{name: slurmd, image: x, ports: []}]",
                                              "containers: [{name: other}]",
                                              "initContainers: [{name: slurmd}]",
                                              "tolerations: []",
                                              "tolerations: [{operator: Exists}]",
                                              "volumes: []",
                                              "volumes: [{name: slurm-etc, emptyDir: {}}]",
                                              "$patch: replace",
                                              "{$patch: delete, containers: null}",
                                              "containers: [{$patch: replace}, {name: a}]",
                                              "containers: [{name: slurmd, $patch: delete}]",
                                              "hostNetwork: true",
                                              "$retainKeys: [hostNetwork]",
                                              "$setElementOrder/containers: []",
                                              "dnsConfig: {}",
                                              "dnsConfig: {searches: []}",
                                              "securityContext: {runAsUser: 0}",
                                              "containers: 7",
                                              "affinity: {}",
                                              "tolerations: {}",
                                              "volumes: [7]"};
  const json::Value base = yaml(
      "{containers: [{name: slurmd, ports: [{name: slurmd, containerPort: 6818}]}], tolerations: [{key: w}], "
      "volumes: [{name: slurm-etc, projected: {}}], dnsConfig: {searches: [d]}}");
  std::mt19937 random(20261128);
  for (int round = 0; round < 500; ++round) {
    json::Value spec = base;
    try {
      for (int i = 0; i < 3; ++i) spec = overlay_pod_spec(spec, yaml(patches[random() % patches.size()]), kSubject);
    } catch (const BadObject& fault) {
      EXPECT_TRUE(std::string_view(fault.what()).starts_with("NodeSet slurm/gpu: spec.template.spec"));
      continue;
    }
    const json::Value& first = json::array_at(spec, {"containers"})->at(0);
    ASSERT_EQ(json::string_at(first, {"name"}), "slurmd");
    ASSERT_EQ(json::int_at(json::array_at(first, {"ports"})->at(0), {"containerPort"}), 6818);
    const json::Array& tolerations = *json::array_at(spec, {"tolerations"});
    ASSERT_TRUE(
        std::ranges::any_of(tolerations, [](const json::Value& t) { return json::string_at(t, {"key"}) == "w"; }));
    ASSERT_EQ(json::string_at(json::array_at(spec, {"volumes"})->at(0), {"name"}), "slurm-etc");
    ASSERT_FALSE(json::array_at(spec, {"dnsConfig", "searches"})->empty());
    ASSERT_FALSE(json::dump(spec).contains("$"));
  }
}

}  // namespace
}  // namespace bascule::op

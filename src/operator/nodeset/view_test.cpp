// From JSON to values, of objects as they come and of hostile ones.
#include "operator/nodeset/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/time.hpp"
#include "json/yaml.hpp"
#include "operator/api/names.hpp"
#include "operator/api/read.hpp"
#include "operator/builders/worker.hpp"
#include "operator/nodeset/identity.hpp"
#include "operator/nodeset/perform.hpp"

namespace bascule::op::nodeset {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

json::Interner interner;

NodeSet node_set(std::string_view spec = "{}", std::string_view meta = "{}") {
  json::Value value = json::Object{};
  json::at_or_create(value, {"metadata"}) = json::parse_yaml(meta);
  json::at_or_create(value, {"metadata", "name"}) = "foo";
  json::at_or_create(value, {"metadata", "namespace"}) = "slurm";
  json::at_or_create(value, {"metadata", "uid"}) = "u";
  json::at_or_create(value, {"spec"}) = json::parse_yaml(spec);
  return read_nodeset(value);
}
std::shared_ptr<const WorkerPod> pod_of(std::string_view yaml) {
  return decode_worker_pod(json::dump(json::parse_yaml(yaml)), interner);
}
WorkerNode node_of(std::string_view yaml) {
  return *decode_worker_node(json::dump(json::parse_yaml(yaml)), interner);
}

constexpr std::string_view kPod = R"(
metadata:
  name: foo-12
  namespace: slurm
  uid: p
  resourceVersion: "7"
  generateName: foo-
  creationTimestamp: "2026-11-28T00:00:00Z"
  labels:
    app.kubernetes.io/name: slurmd
    app.kubernetes.io/instance: foo
    nodeset.slinky.slurm.net/scaling-mode: StatefulSet
    controller.kubernetes.io/hash: abc
    nodeset.slinky.slurm.net/pod-index: "12"
  annotations: {nodeset.slinky.slurm.net/pod-cordon: "true", nodeset.slinky.slurm.net/pod-deletion-cost: "-3"}
  ownerReferences: [{apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, name: foo, uid: u, controller: true}]
spec:
  hostname: foo-12
  nodeName: k1
  volumes: [{name: data, persistentVolumeClaim: {claimName: data-foo-12}},
            {name: home, persistentVolumeClaim: {claimName: homes}}, {name: x, emptyDir: {}}]
status:
  phase: Running
  conditions:
  - {type: Ready, status: "True", lastTransitionTime: "2026-11-28T00:01:00Z"}
  - {type: SlurmNodeStateIdle, status: "True", message: m, lastTransitionTime: "2026-11-28T00:02:00Z"}
  - {type: SlurmNodeStateDown, status: "False"}
  - {type: Initialized, status: "True"}
)";

TEST(ViewTest, APod) {
  const auto pod = pod_of(kPod);
  EXPECT_TRUE(pod->worker);
  EXPECT_EQ(pod->set, "foo");
  EXPECT_EQ(pod->stem, "foo");
  const NodeSet set = node_set("{volumeClaimTemplates: [{metadata: {name: data}}]}");
  const PodView view = view_pod(*pod, view_spec(set, {}));
  EXPECT_EQ(view.owner, Owner::kUs);
  EXPECT_TRUE(view.selected);
  EXPECT_THAT(view.claims, ElementsAre(Pair("data", "data-foo-12"))) << "the user's other claims are none of ours";
  EXPECT_TRUE(view.healthy());
  EXPECT_EQ(print_rfc3339(view.ready_since), "2026-11-28T00:01:00Z");
  ASSERT_EQ(view.slurm_conditions.size(), 1u);
  EXPECT_EQ(view.slurm_conditions[0].type, "SlurmNodeStateIdle");
  EXPECT_TRUE(view.cordoned());
  EXPECT_EQ(view.deletion_cost, "-3");
  EXPECT_EQ(view.hash_label, "abc");
  EXPECT_EQ(slurm_name_of(view), "foo-12");
}

TEST(ViewTest, WhosePodsAre) {
  const Spec spec = view_spec(node_set(), {});
  const auto owner = [&](std::string_view reference) {
    const auto pod = pod_of(
        "{metadata: {name: foo-1, labels: {app.kubernetes.io/name: slurmd, "
        "app.kubernetes.io/instance: foo}, ownerReferences: [" +
        std::string(reference) + "]}}");
    return view_pod(*pod, spec).owner;
  };
  EXPECT_EQ(owner(""), Owner::kNone);
  EXPECT_EQ(owner("{apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, name: foo, uid: u, controller: true}"),
            Owner::kUs);
  EXPECT_EQ(owner("{apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, name: foo, uid: u}"), Owner::kNone);
  EXPECT_EQ(owner("{apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, name: foo, uid: old, controller: true}"),
            Owner::kOther);
  EXPECT_EQ(owner("{apiVersion: apps/v1, kind: ReplicaSet, name: foo, uid: u, controller: true}"), Owner::kOther);
}

TEST(ViewTest, OtherPodsCostLittle) {
  const auto pod = pod_of("{metadata: {name: web-3, namespace: a, uid: p, labels: {app: web}}, spec: {nodeName: k1}}");
  EXPECT_FALSE(pod->worker);
  EXPECT_EQ(pod->stem, "web");
  EXPECT_TRUE(pod->meta.labels.empty());
  EXPECT_TRUE(pod->view.node.empty());
}

// Fields of the wrong type count as absent; nothing throws.
TEST(ViewTest, HostilePods) {
  const std::string_view pods[] = {
      "{}",
      "{metadata: {name: foo-1}, spec: 3, status: x}",
      R"({metadata: {name: foo-99999999999999, labels: {app.kubernetes.io/name: slurmd, app.kubernetes.io/instance: foo}},
      spec: {volumes: {a: b}, hostname: 7, nodeName: [], affinity: [1]},
      status: {conditions: {}, phase: 4}})",
      R"({metadata: {name: '-', labels: {app.kubernetes.io/name: slurmd, app.kubernetes.io/instance: foo}},
      spec: {volumes: [1, null, {name: data, persistentVolumeClaim: 3}]},
      status: {conditions: [null, 3, {type: Ready, status: true, lastTransitionTime: yesterday}]}})",
      R"({metadata: {name: foo-1, labels: {app.kubernetes.io/name: slurmd, app.kubernetes.io/instance: foo}},
      spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [3, {matchFields: 4}, {matchFields: [{key: metadata.name, operator: In, values: [1]}]}]}}}}})",
  };
  const Spec spec = view_spec(node_set("{volumeClaimTemplates: [{metadata: {name: data}}]}"), {});
  for (const std::string_view text : pods) {
    SCOPED_TRACE(text);
    const PodView view = view_pod(*pod_of(text), spec);
    EXPECT_FALSE(view.healthy());
    EXPECT_TRUE(view.claims.empty());
    EXPECT_TRUE(view.target_node.empty());
    EXPECT_EQ(view.ready_since, WallTime{});
  }
}

TEST(ViewTest, ASpecAndItsDrainLimit) {
  const Spec spec = view_spec(
      node_set("{replicas: 4, scalingMode: DaemonSet, minReadySeconds: 5, ordinalPadding: 3, updateStrategy: {type: "
               "ScheduledUpdate, scheduledUpdate: {startTime: '2026-12-01T00:00:00Z', duration: 45m}}, template: "
               "{spec: {hostname: node-, hostNetwork: true}}}",
               "{annotations: {nodeset.slinky.slurm.net/drain-limit: 2h30m}, finalizers: "
               "[nodeset.slinky.slurm.net/drain]}"),
      {"DiskPressure"});
  EXPECT_EQ(spec.mode, ScalingMode::kDaemonSet);
  EXPECT_EQ(spec.update, UpdateType::kScheduledUpdate);
  EXPECT_EQ(spec.scheduled->length, 45min);
  EXPECT_EQ(spec.drain_limit, 150min);
  EXPECT_TRUE(spec.has_drain_finalizer);
  EXPECT_FALSE(spec.has_reservation_finalizer);
  EXPECT_TRUE(spec.host_network);
  EXPECT_EQ(spec.template_hostname, "node-");
  EXPECT_EQ(spec.min_ready, 5s);
  EXPECT_THROW(view_spec(node_set("{}", "{annotations: {nodeset.slinky.slurm.net/drain-limit: soon}}"), {}), BadObject);
}

TEST(ViewTest, StatusGoesThereAndBack) {
  const json::Value had = json::parse_yaml(R"(
nodeSetHash: old
replicas: 99999999999
ordinalToNode: {"0": k0, "1": k1}
foreign: 3
conditions:
- {type: Foreign, status: "True", reason: R, message: "", lastTransitionTime: "2026-11-28T00:00:00Z"}
)");
  Status status = view_status(had);
  EXPECT_EQ(status.replicas, std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(status.ordinal_to_node.size(), 2u);
  status.replicas = 3;
  status.hash = "new";
  status.selector = "a=b";
  status.ordinal_to_node.erase("1");
  status.reservation_start = *parse_rfc3339("2026-12-01T00:00:00Z");
  status.reservation_created = Condition{"ReservationCreated", "Created", "m", true, 4, *status.reservation_start};
  const json::Value now = print_status(had, status);
  EXPECT_EQ(view_status(now), status);
  EXPECT_EQ(json::int_at(now, {"foreign"}), 3);
  EXPECT_TRUE(condition_at(now, "Foreign"));
  EXPECT_TRUE(json::equal(print_status(now, status), now)) << "at rest nothing differs";
  status.reservation_created.reset();
  EXPECT_FALSE(condition_at(print_status(now, status), "ReservationCreated"));
}

TEST(ViewTest, HostileStatus) {
  for (const std::string_view text :
       {"3", "{conditions: 3, replicas: x, ordinalToNode: []}", "{conditions: [1, {}]}"}) {
    const json::Value had = json::parse_yaml(text);
    const Status status = view_status(had);
    EXPECT_EQ(status.replicas, 0);
    EXPECT_EQ(view_status(print_status(had, status)), status);
  }
}

TEST(ViewTest, WherePodsMayRun) {
  const WorkerNode node = node_of(R"(
metadata: {name: k1, labels: {zone: a, cores: "64"}, annotations: {topology.slinky.slurm.net/spec: "topo:s1"}}
spec: {unschedulable: true, taints: [{key: gpu, value: "1", effect: NoSchedule}, {key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}
status: {conditions: [{type: DiskPressure, status: "True", reason: R, message: M}]}
)");
  const auto view = [&](std::string_view spec) { return Placement(json::parse_yaml(spec)).view_node(node); };
  EXPECT_TRUE(view("{}").matches);
  EXPECT_TRUE(view("{}").untolerated_no_schedule);
  EXPECT_FALSE(view("{tolerations: [{key: gpu, operator: Exists}]}").untolerated_no_schedule);
  EXPECT_FALSE(view("{tolerations: [{operator: Exists}]}").untolerated_no_schedule);
  EXPECT_EQ(view("{}").topology, "topo:s1");
  EXPECT_TRUE(view("{}").unschedulable);
  EXPECT_EQ(view("{}").conditions.at(0).message, "M");
  EXPECT_TRUE(view("{nodeSelector: {zone: a}}").matches);
  EXPECT_FALSE(view("{nodeSelector: {zone: b}}").matches);
  EXPECT_FALSE(view("{nodeSelector: {zone: [a]}}").matches);
  const auto required = [&](std::string_view terms) {
    return view("{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " +
                std::string(terms) + "}}}}")
        .matches;
  };
  EXPECT_FALSE(required("[]"));
  EXPECT_FALSE(required("[{}]")) << "an empty term matches nothing";
  EXPECT_FALSE(required("x"));
  EXPECT_TRUE(required("[{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}]"));
  EXPECT_TRUE(required("[{}, {matchFields: [{key: metadata.name, operator: In, values: [k1]}]}]"));
  EXPECT_FALSE(required("[{matchFields: [{key: metadata.uid, operator: In, values: [k1]}]}]"));
  EXPECT_FALSE(required("[{matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}]"));
  EXPECT_TRUE(required("[{matchExpressions: [{key: other, operator: NotIn, values: [a]}]}]"));
  EXPECT_TRUE(required("[{matchExpressions: [{key: other, operator: DoesNotExist}, {key: zone, operator: Exists}]}]"));
  EXPECT_TRUE(required("[{matchExpressions: [{key: cores, operator: Gt, values: ['32']}]}]"));
  EXPECT_FALSE(required("[{matchExpressions: [{key: cores, operator: Lt, values: ['32']}]}]"));
  EXPECT_FALSE(required("[{matchExpressions: [{key: zone, operator: Gt, values: ['32']}]}]"));
  EXPECT_FALSE(required("[{matchExpressions: [{key: zone, operator: Is, values: [a]}]}]"));
}

TEST(ViewTest, AHeartbeatIsNoNews) {
  const std::string_view text =
      "{metadata: {name: k1, uid: node, resourceVersion: '1'}, status: {conditions: [{type: Ready, status: 'True', "
      "lastHeartbeatTime: 'T'}]}}";
  EXPECT_TRUE(looks_same(node_of(text), node_of("{metadata: {name: k1, uid: node, resourceVersion: '2'}, status: "
                                                "{conditions: [{type: Ready, status: 'True'}], images: []}}")));
  EXPECT_FALSE(
      looks_same(node_of(text), node_of("{metadata: {name: k1, uid: node}, status: {conditions: [{type: Ready, "
                                        "status: 'False'}]}}")));
}

TEST(ViewTest, TheOrderOfKeysIsNoNewRevision) {
  EXPECT_EQ(canonical_text(json::parse(R"({"b":1,"a":[{"d":1,"c":2}]})")),
            canonical_text(json::parse(R"({"a":[{"c":2,"d":1.0}],"b":1})")));
  EXPECT_NE(canonical_text(json::parse("[1,2]")), canonical_text(json::parse("[2,1]")));
}

TEST(ViewTest, OwnersOfClaims) {
  const auto claim = decode_claim(json::dump(json::parse_yaml(R"(
metadata:
  name: data-foo-0
  namespace: slurm
  ownerReferences:
  - {apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, name: foo, uid: u, controller: true}
  - {apiVersion: slinky.slurm.net/v1beta1, kind: NodeSet, name: bar, uid: b}
  - {apiVersion: v1, kind: Pod, name: foo-0, uid: p}
  - {apiVersion: x/v1, kind: Pod, name: foo-0, uid: q}
)")),
                                  interner);
  const ClaimView view = view_claim(*claim, "foo");
  ASSERT_EQ(view.owners.size(), 4u);
  EXPECT_EQ(view.owners[0].kind, OwnerView::Kind::kNodeSet);
  EXPECT_EQ(view.owners[1].kind, OwnerView::Kind::kOther);
  EXPECT_EQ(view.owners[2].kind, OwnerView::Kind::kPod);
  EXPECT_EQ(view.owners[3].kind, OwnerView::Kind::kOther);
}

// What a plan asks for and what the builder makes of it are the same pod.
TEST(ViewTest, APodIsMadeAsPlanned) {
  const NodeSet set = node_set(
      "{controllerRef: {name: slurm}, slurmd: {image: s}, ordinalPadding: 2, volumeClaimTemplates: [{metadata: {name: "
      "data}}], template: {spec: {hostname: n-}}}");
  json::Value object = json::parse_yaml(
      "{metadata: {name: slurm, namespace: slurm, uid: c}, spec: {slurmKeyRef: {name: k, key: k}, jwtKeyRef: {name: "
      "j, key: j}}}");
  const Controller controller = read_controller(object);
  const WorkerInput input{set, controller, "cluster.local", "", ""};
  const Spec spec = view_spec(set, {});
  CreatePod plan = make_stateful(spec, {{"data-foo-3", ClaimView{.name = "data-foo-3", .owners = {}}}}, 3, "abc");
  plan.pin_node = "k1";
  const json::Value made = make_pod(input, plan, "topo:s1");
  const PodView view = view_pod(*decode_worker_pod(json::dump(made), interner), spec);
  EXPECT_EQ(view.name, "foo-03");
  EXPECT_EQ(view.hostname, "n-03");
  EXPECT_EQ(view.owner, Owner::kUs);
  EXPECT_TRUE(view.selected);
  EXPECT_THAT(view.claims, ElementsAre(Pair("data", "data-foo-3"))) << "the claim of another padding is kept";
  EXPECT_EQ(view.hash_label, "abc");
  EXPECT_EQ(view.topology, "topo:s1");
  EXPECT_EQ(view.target_node, "k1");
  EXPECT_THAT(identity_labels(spec, view), ::testing::IsEmpty());
}

TEST(ViewTest, ADaemonPodIsMadeAsPlanned) {
  const NodeSet set = node_set("{controllerRef: {name: slurm}, slurmd: {image: s}, scalingMode: DaemonSet}");
  const Controller controller = read_controller(json::parse_yaml(
      "{metadata: {name: slurm, namespace: slurm, uid: c}, spec: {slurmKeyRef: {name: k, key: k}, jwtKeyRef: {name: "
      "j, key: j}}}"));
  const Spec spec = view_spec(set, {});
  NodeView node;
  node.name = "k1.example";
  const CreatePod plan = make_daemon(spec, node, "abc");
  const json::Value made = make_pod({set, controller, "cluster.local", "", ""}, plan, std::nullopt);
  const PodView view = view_pod(*decode_worker_pod(json::dump(made), interner), spec);
  EXPECT_EQ(view.generate_name, "foo-");
  EXPECT_EQ(view.hostname, "k1");
  EXPECT_EQ(view.target_node, "k1.example");
  EXPECT_THAT(identity_labels(spec, view), ::testing::IsEmpty());
  EXPECT_THAT(json::dump(made), HasSubstr("node.kubernetes.io/unreachable"));
}

}  // namespace
}  // namespace bascule::op::nodeset

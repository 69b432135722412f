#include "testing/objects.hpp"

#include <fmt/format.h>

namespace bascule::testing {

using json::Array;
using json::Object;
using json::Value;

namespace {

Object meta(std::string_view name, std::string_view ns, const Object& labels, const Object& annotations) {
  Object out{{"name", name}};
  if (!ns.empty()) out["namespace"] = ns;
  if (!labels.empty()) out["labels"] = labels;
  if (!annotations.empty()) out["annotations"] = annotations;
  return out;
}

Object small_container(std::string_view cpu, std::string_view memory) {
  return {{"name", "main"},
          {"image", "registry.k8s.io/pause:3.10"},
          {"resources", Object{{"requests", Object{{"cpu", cpu}, {"memory", memory}}}}}};
}

}  // namespace

Value make_namespace(std::string_view name) {
  return Object{{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", Object{{"name", name}}}};
}

Value make_pod(const PodSpec& spec) {
  Object pod_spec{{"schedulerName", spec.scheduler},
                  {"restartPolicy", "Never"},
                  {"containers", Array{small_container(spec.cpu, spec.memory)}}};
  if (!spec.node.empty()) pod_spec["nodeName"] = spec.node;
  if (spec.tolerates && spec.scheduler != "default-scheduler") {
    pod_spec["tolerations"] = Array{Object{{"key", "slinky.slurm.net/managed-node"},
                                           {"operator", "Equal"},
                                           {"value", spec.scheduler},
                                           {"effect", "NoExecute"}}};
  }
  return Object{{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", meta(spec.name, spec.ns, spec.labels, spec.annotations)},
                {"spec", std::move(pod_spec)}};
}

Value make_node(const NodeSpec& spec) {
  Object resources{{"cpu", spec.cpu}, {"memory", spec.memory}, {"pods", "110"}, {"ephemeral-storage", "100Gi"}};
  Object labels{{"kubernetes.io/hostname", spec.name}, {"kubernetes.io/os", "linux"}, {"kubernetes.io/arch", "amd64"}};
  for (const auto& [key, value] : spec.labels) labels[key] = value;
  Object node_spec;
  if (!spec.taints.empty()) node_spec["taints"] = spec.taints;
  return Object{
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata", meta(spec.name, "", labels, {})},
      {"spec", std::move(node_spec)},
      {"status", Object{{"capacity", resources},
                        {"allocatable", resources},
                        {"conditions", Array{Object{{"type", "Ready"},
                                                    {"status", spec.ready ? "True" : "False"},
                                                    {"reason", spec.ready ? "KubeletReady" : "KubeletNotReady"},
                                                    {"message", "kubelet is posting ready status"}}}},
                        {"addresses", Array{Object{{"type", "InternalIP"}, {"address", "10.0.0.1"}},
                                            Object{{"type", "Hostname"}, {"address", spec.name}}}},
                        {"nodeInfo", Object{{"kubeletVersion", "v1.36.0"}}}}}};
}

Value make_job(const JobSpec& spec) {
  Value pod = spec.pod;
  if (pod.is_null()) {
    pod = Object{{"spec", Object{{"restartPolicy", "Never"}, {"containers", Array{small_container("100m", "128Mi")}}}}};
  }
  return Object{{"apiVersion", "batch/v1"},
                {"kind", "Job"},
                {"metadata", meta(spec.name, spec.ns, spec.labels, spec.annotations)},
                {"spec", Object{{"parallelism", spec.parallelism},
                                {"completions", spec.completions < 0 ? spec.parallelism : spec.completions},
                                {"backoffLimit", spec.backoff_limit},
                                {"template", std::move(pod)}}}};
}

Value make_binding(std::string_view pod, std::string_view node) {
  return Object{{"apiVersion", "v1"},
                {"kind", "Binding"},
                {"metadata", Object{{"name", pod}}},
                {"target", Object{{"apiVersion", "v1"}, {"kind", "Node"}, {"name", node}}}};
}

// --- the big pod -----------------------------------------------------------------------------------------------------

namespace {

Object env(std::string_view name, std::string_view value) {
  return {{"name", name}, {"value", value}};
}
Object env_field(std::string_view name, std::string_view path) {
  return {{"name", name}, {"valueFrom", Object{{"fieldRef", Object{{"apiVersion", "v1"}, {"fieldPath", path}}}}}};
}

Object probe(std::string_view path, int port) {
  return {{"httpGet", Object{{"path", path}, {"port", port}, {"scheme", "HTTP"}}},
          {"initialDelaySeconds", 10},
          {"timeoutSeconds", 1},
          {"periodSeconds", 10},
          {"successThreshold", 1},
          {"failureThreshold", 3}};
}

Object big_container(std::string_view name, bool gpu, int number) {
  Object limits{{"cpu", gpu ? "16" : "500m"}, {"memory", gpu ? "128Gi" : "512Mi"}};
  Array variables{env_field("POD_NAME", "metadata.name"), env_field("NODE_NAME", "spec.nodeName"),
                  env("RANK", std::to_string(number))};
  if (gpu) {
    limits["nvidia.com/gpu"] = "8";
    variables.push_back(env("MASTER_ADDR", "trainer-0.trainer.default.svc.cluster.local"));
    variables.push_back(env("NCCL_IB_HCA", "mlx5_0,mlx5_1,mlx5_2,mlx5_3"));
  }
  Object out{{"name", name},
             {"image", fmt::format("registry.example.com/team/{}:2026.01.17-4f1c9a7", name)},
             {"command", Array{"/usr/bin/python3", "-m", "trainer.main"}},
             {"args", Array{"--config=/etc/trainer/config.yaml", "--checkpoint=/data/checkpoints"}},
             {"ports", Array{Object{{"name", "http"}, {"containerPort", 8080}, {"protocol", "TCP"}}}},
             {"env", std::move(variables)},
             {"resources", Object{{"limits", limits}, {"requests", limits}}},
             {"volumeMounts", Array{Object{{"name", "config"}, {"mountPath", "/etc/trainer"}},
                                    Object{{"name", "data"}, {"mountPath", "/data"}},
                                    Object{{"name", "kube-api-access-x7k2p"},
                                           {"readOnly", true},
                                           {"mountPath", "/var/run/secrets/kubernetes.io/serviceaccount"}}}},
             {"livenessProbe", probe("/healthz", 8080)},
             {"terminationMessagePath", "/dev/termination-log"},
             {"terminationMessagePolicy", "File"},
             {"imagePullPolicy", "IfNotPresent"}};
  if (gpu) out["readinessProbe"] = probe("/readyz", 8080);
  return out;
}

Array big_volumes() {
  const auto source = json::parse(R"([{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},
    {"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},
    {"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}])");
  return {Object{{"name", "config"}, {"configMap", Object{{"name", "trainer-config"}, {"defaultMode", 420}}}},
          Object{{"name", "data"}, {"persistentVolumeClaim", Object{{"claimName", "training-data"}}}},
          Object{{"name", "kube-api-access-x7k2p"}, {"projected", Object{{"sources", source}, {"defaultMode", 420}}}}};
}

Object managed(std::string_view manager, std::string_view subresource) {
  const Value fields = json::parse(
      R"({"f:metadata":{"f:annotations":{".":{},"f:example.com/team":{}},"f:generateName":{},"f:labels":{".":{},"f:app":{},
    "f:batch.kubernetes.io/job-name":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"0\"}":{}}},"f:spec":{"f:containers":{
    "k:{\"name\":\"trainer\"}":{".":{},"f:args":{},"f:command":{},"f:env":{".":{},"k:{\"name\":\"RANK\"}":{".":{},"f:name":{},
    "f:value":{}},"k:{\"name\":\"MASTER_ADDR\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},
    "f:livenessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}}},"f:name":{},
    "f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}}}}}})");
  Object out{{"manager", manager},       {"operation", "Update"},
             {"apiVersion", "v1"},       {"time", "2026-01-17T08:00:00Z"},
             {"fieldsType", "FieldsV1"}, {"fieldsV1", fields}};
  if (!subresource.empty()) out["subresource"] = subresource;
  return out;
}

Object container_status(std::string_view name, int number) {
  return {{"name", name},
          {"state", Object{{"running", Object{{"startedAt", "2026-01-17T08:00:09Z"}}}}},
          {"lastState", Object()},
          {"ready", true},
          {"restartCount", 0},
          {"image", fmt::format("registry.example.com/team/{}:2026.01.17-4f1c9a7", name)},
          {"imageID", fmt::format("registry.example.com/team/{}@sha256:{:064x}", name,
                                  0x5eed'0000ULL + static_cast<unsigned>(number))},
          {"containerID", fmt::format("containerd://{:064x}", 0xc0'0000ULL + static_cast<unsigned>(number))},
          {"started", true}};
}

Object big_status(int number) {
  Array conditions;
  for (const char* type : {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
    conditions.push_back(Object{{"type", type},
                                {"observedGeneration", 1},
                                {"status", "True"},
                                {"lastProbeTime", nullptr},
                                {"lastTransitionTime", "2026-01-17T08:00:10Z"}});
  }
  const std::string ip = fmt::format("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
  return {{"observedGeneration", 1},
          {"phase", "Running"},
          {"conditions", std::move(conditions)},
          {"hostIP", "192.168.7.9"},
          {"hostIPs", Array{Object{{"ip", "192.168.7.9"}}}},
          {"podIP", ip},
          {"podIPs", Array{Object{{"ip", ip}}}},
          {"startTime", "2026-01-17T08:00:01Z"},
          {"containerStatuses", Array{container_status("trainer", number), container_status("sidecar", number)}},
          {"qosClass", "Guaranteed"}};
}

}  // namespace

Value make_big_pod(int number, std::string_view ns) {
  Object metadata{
      {"name", fmt::format("trainer-{:06}", number)},
      {"generateName", "trainer-"},
      {"namespace", ns},
      {"uid", fmt::format("6f1c7d1e-0000-4000-8000-{:012}", number)},
      {"creationTimestamp", "2026-01-17T08:00:00Z"},
      {"labels",
       Object{{"app", "trainer"},
              {"team", fmt::format("team-{}", number % 17)},
              {"batch.kubernetes.io/controller-uid", fmt::format("9a1c7d1e-0000-4000-8000-{:012}", number / 8)},
              {"batch.kubernetes.io/job-name", fmt::format("train-{}", number / 8)},
              {"controller-uid", fmt::format("9a1c7d1e-0000-4000-8000-{:012}", number / 8)},
              {"job-name", fmt::format("train-{}", number / 8)}}},
      {"annotations",
       Object{{"example.com/team", "research"},
              {"example.com/config-hash", fmt::format("{:064x}", 0xabcdefULL * static_cast<unsigned>(number))},
              {"prometheus.io/scrape", "true"},
              {"prometheus.io/port", "8080"}}},
      {"ownerReferences", Array{Object{{"apiVersion", "batch/v1"},
                                       {"kind", "Job"},
                                       {"name", fmt::format("train-{}", number / 8)},
                                       {"uid", fmt::format("9a1c7d1e-0000-4000-8000-{:012}", number / 8)},
                                       {"controller", true},
                                       {"blockOwnerDeletion", true}}}},
      {"managedFields", Array{managed("kube-controller-manager", ""), managed("kubelet", "status")}}};
  const Value tolerations = json::parse(R"([{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"},
    {"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
    {"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}])");
  Object spec{{"volumes", big_volumes()},
              {"containers", Array{big_container("trainer", true, number), big_container("sidecar", false, number)}},
              {"restartPolicy", "Never"},
              {"terminationGracePeriodSeconds", 30},
              {"dnsPolicy", "ClusterFirst"},
              {"serviceAccountName", "trainer"},
              {"serviceAccount", "trainer"},
              {"nodeName", fmt::format("gpu-{:04}", number % 800)},
              {"securityContext", Object()},
              {"schedulerName", "slurm-bridge-scheduler"},
              {"tolerations", tolerations},
              {"priority", 0},
              {"enableServiceLinks", true},
              {"preemptionPolicy", "PreemptLowerPriority"}};
  return Object{{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", std::move(metadata)},
                {"spec", std::move(spec)},
                {"status", big_status(number)}};
}

}  // namespace bascule::testing

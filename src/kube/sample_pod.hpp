// A pod as an API server of a busy GPU cluster writes it, about 7.8 KB: two containers with probes, a projected token
// volume, managedFields, five conditions. For tests and benchmarks.
#pragma once

#include <fmt/format.h>

#include <string>

namespace bascule::kube {

inline std::string sample_container(std::string_view name, std::string_view image) {
  std::string env;
  for (int i = 0; i < 3; ++i) {
    env += fmt::format(R"({}{{"name":"SETTING_{}","value":"some value of setting {}"}})", i == 0 ? "" : ",", i, i);
  }
  return fmt::format(
      R"({{"name":"{0}","image":"registry.example.com/team/{1}:v1.42.7","command":["/bin/{0}","--config=/etc/{0}/config.yaml","--log-level=info"],"env":[{2},{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}}],"ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"resources":{{"limits":{{"cpu":"4","memory":"16Gi","nvidia.com/gpu":"1"}},"requests":{{"cpu":"3500m","memory":"16Gi","nvidia.com/gpu":"1"}}}},"volumeMounts":[{{"name":"config","mountPath":"/etc/{0}"}},{{"name":"kube-api-access-x7k2p","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}],"livenessProbe":{{"httpGet":{{"path":"/healthz","port":8080,"scheme":"HTTP"}},"initialDelaySeconds":15,"timeoutSeconds":1,"periodSeconds":20,"successThreshold":1,"failureThreshold":3}},"readinessProbe":{{"httpGet":{{"path":"/readyz","port":8080,"scheme":"HTTP"}},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","securityContext":{{"allowPrivilegeEscalation":false,"readOnlyRootFilesystem":true,"capabilities":{{"drop":["ALL"]}}}}}})",
      name, image, env);
}

inline std::string sample_managed_fields() {
  return R"([{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2026-01-05T10:00:00Z","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"5f0c8d1e-0000-4000-8000-000000000001\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:command":{},"f:env":{".":{},"k:{\"name\":\"SETTING_0\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"SETTING_1\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{}},"f:name":{},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}},{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-01-05T10:00:09Z","fieldsType":"FieldsV1","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{".":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.244.3.17\"}":{".":{},"f:ip":{}}},"f:startTime":{}}},"subresource":"status"}])";
}

inline std::string sample_conditions() {
  std::string out;
  for (const char* type : {"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}) {
    out += fmt::format(
        R"({}{{"type":"{}","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-05T10:00:08Z"}})",
        out.empty() ? "" : ",", type);
  }
  return out;
}

inline std::string sample_container_status(std::string_view name, std::string_view image, std::size_t i) {
  return fmt::format(
      R"({{"name":"{0}","state":{{"running":{{"startedAt":"2026-01-05T10:00:07Z"}}}},"lastState":{{}},"ready":true,"restartCount":0,"image":"registry.example.com/team/{1}:v1.42.7","imageID":"registry.example.com/team/{1}@sha256:4f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8","containerID":"containerd://{2:064x}","started":true}})",
      name, image, i + 1);
}

// The i-th pod: names, uid, node and owner vary as they do in a cluster.
inline std::string sample_pod(std::size_t i, std::string_view resource_version = "") {
  const std::string version = resource_version.empty() ? std::to_string(1000 + i) : std::string(resource_version);
  return fmt::format(
      R"({{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"trainer-{0:05}-7d9f8b6c5d-{0:05x}","generateName":"trainer-{0:05}-7d9f8b6c5d-","namespace":"team-{1}","uid":"{2:08x}-5f0c-4000-8000-{0:012x}","resourceVersion":"{3}","generation":1,"creationTimestamp":"2026-01-05T10:00:00Z","labels":{{"app":"trainer-{4}","app.kubernetes.io/component":"worker","app.kubernetes.io/part-of":"training","batch.kubernetes.io/job-name":"trainer-{4}","pod-template-hash":"7d9f8b6c5d","team":"team-{1}"}},"annotations":{{"cluster-autoscaler.kubernetes.io/safe-to-evict":"false","kubectl.kubernetes.io/default-container":"main","prometheus.io/port":"8080","prometheus.io/scrape":"true"}},"ownerReferences":[{{"apiVersion":"batch/v1","kind":"Job","name":"trainer-{4}","uid":"{4:08x}-5f0c-4000-8000-00000000abcd","controller":true,"blockOwnerDeletion":true}}],"finalizers":["batch.kubernetes.io/job-tracking"],"managedFields":{5}}},"spec":{{"volumes":[{{"name":"config","configMap":{{"name":"trainer-config","defaultMode":420}}}},{{"name":"kube-api-access-x7k2p","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}],"defaultMode":420}}}}],"containers":[{6},{7}],"restartPolicy":"Never","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeSelector":{{"kubernetes.io/arch":"amd64","pool":"gpu"}},"serviceAccountName":"trainer","serviceAccount":"trainer","nodeName":"gpu-node-{8:03}","securityContext":{{"runAsUser":1000,"runAsNonRoot":true,"fsGroup":1000,"seccompProfile":{{"type":"RuntimeDefault"}}}},"schedulerName":"slurm-bridge-scheduler","tolerations":[{{"key":"nvidia.com/gpu","operator":"Exists","effect":"NoSchedule"}},{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":1000,"priorityClassName":"training","enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{{"phase":"Running","conditions":[{9}],"hostIP":"10.0.3.{10}","hostIPs":[{{"ip":"10.0.3.{10}"}}],"podIP":"10.244.3.{10}","podIPs":[{{"ip":"10.244.3.{10}"}}],"startTime":"2026-01-05T10:00:00Z","containerStatuses":[{11},{12}],"qosClass":"Burstable"}}}})",
      i, i % 40, 0x1000 + i, version, i / 8, sample_managed_fields(), sample_container("main", "trainer"),
      sample_container("exporter", "metrics-exporter"), i % 400, sample_conditions(), i % 250,
      sample_container_status("main", "trainer", i), sample_container_status("exporter", "metrics-exporter", i));
}

}  // namespace bascule::kube

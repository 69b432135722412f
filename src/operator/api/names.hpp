// The names by which custom resources, pods, nodes and people speak to the operator: those of slurm-operator, so that
// manifests, images and dashboards move over unchanged. Names of child objects, labels, annotations, ports, paths.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace bascule::op::names {

inline constexpr std::string_view kGroup = "slinky.slurm.net";
inline constexpr std::string_view kVersion = "v1beta1";
inline constexpr std::string_view kApiVersion = "slinky.slurm.net/v1beta1";

// Kubernetes' recommended labels; name and instance are in selectors.
inline constexpr std::string_view kAppName = "app.kubernetes.io/name";
inline constexpr std::string_view kAppInstance = "app.kubernetes.io/instance";
inline constexpr std::string_view kAppComponent = "app.kubernetes.io/component";

// What a child belongs to: values of kAppName (daemon, also container and port name) and of kAppComponent.
struct App {
  std::string_view name;
  std::string_view component;
};
inline constexpr App kSlurmctld{"slurmctld", "controller"};
inline constexpr App kSlurmdbd{"slurmdbd", "accounting"};
inline constexpr App kSlurmrestd{"slurmrestd", "restapi"};
inline constexpr App kSlurmd{"slurmd", "worker"};
inline constexpr App kLogin{"login", "login"};

// Labels
inline constexpr std::string_view kCluster = "slinky.slurm.net/cluster";           // worker pod: its Controller
inline constexpr std::string_view kActive = "controller.slinky.slurm.net/active";  // slurmctld pod that serves: "true"
inline constexpr std::string_view kServiceRole =
    "controller.slinky.slurm.net/service";  // "client" on the Service of a Controller that metrics are scraped from
inline constexpr std::string_view kPodName = "nodeset.slinky.slurm.net/pod-name";    // worker pod, and the four below
inline constexpr std::string_view kPodIndex = "nodeset.slinky.slurm.net/pod-index";  // zero-padded ordinal
inline constexpr std::string_view kPodHostname = "nodeset.slinky.slurm.net/pod-hostname";
inline constexpr std::string_view kPodProtect = "nodeset.slinky.slurm.net/pod-protect";  // "true" while busy
inline constexpr std::string_view kScalingMode = "nodeset.slinky.slurm.net/scaling-mode";
inline constexpr std::string_view kRevisionHash = "controller.kubernetes.io/hash";  // worker pod, ControllerRevision

// Annotations of worker pods
inline constexpr std::string_view kPodCordon = "nodeset.slinky.slurm.net/pod-cordon";  // "true": drain
// Ours, beside kPodCordon: why the operator set it ("ScaleIn", "Update", "Node" ...); without it a user did.
inline constexpr std::string_view kPodCordonCause = "nodeset.slinky.slurm.net/pod-cordon-cause";
inline constexpr std::string_view kPodDeletionCost = "nodeset.slinky.slurm.net/pod-deletion-cost";
inline constexpr std::string_view kPodDeadline = "nodeset.slinky.slurm.net/pod-deadline";  // RFC 3339, by us
// Annotations of Nodes
inline constexpr std::string_view kNodeCordonReason = "nodeset.slinky.slurm.net/node-cordon-reason";
inline constexpr std::string_view kHostnameOverride = "nodeset.slinky.slurm.net/hostname-override";
inline constexpr std::string_view kTopologySpec = "topology.slinky.slurm.net/spec";  // copied to the worker pod
inline constexpr std::string_view kFeaturesSpec = "features.slinky.slurm.net/spec";
// Annotation of a child, ours: a hash of what was applied last.
inline constexpr std::string_view kStamp = "slinky.slurm.net/applied";
// Annotations of pod templates: hashes of what is mounted, so that a change rolls the pods.
inline constexpr std::string_view kTemplateHash = "nodeset.slinky.slurm.net/template-hash";  // ControllerRevision
inline constexpr std::string_view kSlurmKeyHash = "slinky.slurm.net/slurm-key-hash";
inline constexpr std::string_view kJwtKeyHash = "slinky.slurm.net/jwt-key-hash";
inline constexpr std::string_view kSlurmConfigHash = "slinky.slurm.net/slurm-config-hash";
inline constexpr std::string_view kSlurmdbdConfHash = "slinky.slurm.net/slurmdbd-conf-hash";
inline constexpr std::string_view kSshdConfHash = "slinky.slurm.net/sshd-conf-hash";
inline constexpr std::string_view kSssdConfHash = "slinky.slurm.net/sssd-conf-hash";
inline constexpr std::string_view kSshHostKeysHash = "slinky.slurm.net/ssh-host-keys-hash";
inline constexpr std::string_view kDefaultContainer = "kubectl.kubernetes.io/default-container";

inline constexpr std::string_view kReservationFinalizer = "nodeset.slinky.slurm.net/reservation";
// Ours: jobs end before the pods of a deleted NodeSet go.
// Kubernetes' own: the garbage collector leaves what the object owns.
inline constexpr std::string_view kOrphanFinalizer = "orphan";
inline constexpr std::string_view kDrainFinalizer = "nodeset.slinky.slurm.net/drain";
// Annotation of a NodeSet, ours: a Go duration after which a pod that has to go does not wait for jobs any longer.
inline constexpr std::string_view kDrainLimit = "nodeset.slinky.slurm.net/drain-limit";
// Annotation of a Controller, ours: "true": slurmctld takes a changed auth/slurm key although jobs run.
inline constexpr std::string_view kTakeSlurmKey = "controller.slinky.slurm.net/take-slurm-key";
// Likewise: "true": slurm.conf loses the lines that it keeps for jobs, for slurmctld does not start with them.
inline constexpr std::string_view kDropLines = "controller.slinky.slurm.net/drop-lines";
inline constexpr std::string_view kWorkerTaint = "nodeset.slinky.slurm.net/worker";  // NoExecute, empty value
inline constexpr std::string_view kFeaturePrefix = "k8s/";                     // Slurm node features that are ours
inline constexpr std::string_view kReasonPrefix = "slurm-operator: ";          // Slurm node reasons that are ours
inline constexpr std::string_view kReservationPrefix = "SlurmOperatorMaint-";  // + NodeSet
inline constexpr std::string_view kPodConditionPrefix = "SlurmNodeState";

inline constexpr std::int64_t kSlurmctldPort = 6817;
inline constexpr std::int64_t kSlurmdPort = 6818;
inline constexpr std::int64_t kSlurmdbdPort = 6819;
inline constexpr std::int64_t kSlurmrestdPort = 6820;
inline constexpr std::int64_t kSshPort = 22;

// Users of the container images: uid = gid.
inline constexpr std::int64_t kSlurmUid = 401;
inline constexpr std::int64_t kNobodyUid = 65534;
inline constexpr std::string_view kSlurmUser = "slurm";

// Volumes of our pods and where they are mounted.
inline constexpr std::string_view kSlurmEtcVolume = "slurm-etc";
inline constexpr std::string_view kSlurmEtc = "/etc/slurm";
inline constexpr std::string_view kLogVolume = "slurm-logfile";
inline constexpr std::string_view kLogDir = "/var/log/slurm";
inline constexpr std::string_view kRunVolume = "run";
inline constexpr std::string_view kAuthSocketVolume = "slurm-authsocket";
inline constexpr std::string_view kReconfigure = "reconfigure";  // container of slurmctld's pods
inline constexpr std::string_view kAuthSocketDir = "/run/slurmctld";
inline constexpr std::string_view kStateSaveVolume = "statesave";
inline constexpr std::string_view kStateSaveDir = "/var/spool/slurmctld";  // + / + cluster name
inline constexpr std::string_view kSackdVolume = "sackd-dir";
inline constexpr std::string_view kSackdDir = "/run/slurm";
inline constexpr std::string_view kSshConfigVolume = "ssh-config";
inline constexpr std::string_view kSshHostKeysVolume = "ssh-host-keys";
inline constexpr std::string_view kSssdConfVolume = "sssd-conf";
inline constexpr std::string_view kSlurmConfigVolume = "slurm-config";  // login pods: what initconf copies

// Files in kSlurmEtc, and keys of ConfigMaps and Secrets.
inline constexpr std::string_view kSlurmConf = "slurm.conf";
inline constexpr std::string_view kCgroupConf = "cgroup.conf";
inline constexpr std::string_view kSlurmdbdConf = "slurmdbd.conf";
inline constexpr std::string_view kSlurmKeyFile = "slurm.key";
inline constexpr std::string_view kJwtKeyFile = "jwt.key";
inline constexpr std::string_view kJwksFile = "jwks.json";
inline constexpr std::string_view kSshdConfig = "sshd_config";
inline constexpr std::string_view kAuthorizedKeys = "authorized_keys";
inline constexpr std::string_view kSssdConf = "sssd.conf";
inline constexpr std::string_view kTokenKey = "SLURM_JWT";

// Who says an event about an object of this kind: as slurm-operator's controllers are called.
inline std::string reporter(std::string_view kind) {
  std::string name;
  for (const char c : kind) name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return kind == "Token" ? name : name + "-controller";
}

// Names of child objects, by the name of the custom resource.
inline std::string controller(std::string_view name) {  // StatefulSet, client Service, ServiceMonitor
  return fmt::format("{}-controller", name);
}
inline std::string controller_internal(std::string_view name) {  // headless Service
  return fmt::format("{}-controller-internal", name);
}
inline std::string controller_pod(std::string_view name, std::int64_t ordinal) {
  return fmt::format("{}-controller-{}", name, ordinal);
}
inline std::string config(std::string_view name) {  // ConfigMap
  return fmt::format("{}-config", name);
}
inline std::string accounting(std::string_view name) {  // StatefulSet, Service, Secret
  return fmt::format("{}-accounting", name);
}
inline std::string restapi(std::string_view name) {  // Deployment, Service
  return fmt::format("{}-restapi", name);
}
inline std::string ssh_config(std::string_view name) {  // ConfigMap of a LoginSet or NodeSet
  return fmt::format("{}-ssh-config", name);
}
inline std::string ssh_host_keys(std::string_view name) {  // Secret of a LoginSet
  return fmt::format("{}-ssh-host-keys", name);
}
inline std::string workers(std::string_view controller) {  // Service shared by the NodeSets of a Controller
  return fmt::format("slurm-workers-{}", controller);
}
inline std::string workers_budget(std::string_view controller) {  // PodDisruptionBudget shared by them
  return fmt::format("slurm-workers-pdb-{}", controller);
}

}  // namespace bascule::op::names

// The fields of the built-in kinds that hold objects and lists, and how lists merge: the x-kubernetes-patch-strategy
// and x-kubernetes-patch-merge-key of Kubernetes 1.36. `tools/oracle/run` fails when the libraries say otherwise, and
// `build/oracle/oracle schema` prints the text anew.
#include "json/strategic_types.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace bascule::json::detail {

// A type a line: NAME FIELD..., where a field is
//   name{Type} an object, name{} an object of free keys, name[Type] a list of objects, name[] a list of anything else,
//   then +key: the list merges by that key, + alone: it merges as a set, ! the retainKeys strategy, = replaced as a
//   whole.
// A type without a line has scalars only. The first line names the kinds.
constexpr std::string_view kText = R"(
kinds CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding ConfigMap ControllerRevision CronJob
  DaemonSet Deployment DeviceClass EndpointSlice Endpoints Event HorizontalPodAutoscaler Ingress IngressClass Job
  Lease LimitRange MutatingWebhookConfiguration Namespace NetworkPolicy Node PersistentVolume PersistentVolumeClaim
  Pod PodDisruptionBudget PodTemplate PriorityClass ReplicaSet ReplicationController ResourceClaim
  ResourceClaimTemplate ResourceQuota ResourceSlice Role RoleBinding Secret Service ServiceAccount StatefulSet
  StorageClass ValidatingWebhookConfiguration VolumeAttachment
Affinity nodeAffinity{NodeAffinity} podAffinity{PodAffinity} podAntiAffinity{PodAntiAffinity}
AggregationRule clusterRoleSelectors[LabelSelector]
AllocatedDeviceStatus conditions[Condition] data{} networkData{NetworkDeviceData}
AllocationResult devices{DeviceAllocationResult} nodeSelector{NodeSelector}
CSIDriver metadata{ObjectMeta} spec{CSIDriverSpec}
CSIDriverSpec tokenRequests[StorageTokenRequest] volumeLifecycleModes[]
CSINode metadata{ObjectMeta} spec{CSINodeSpec}
CSINodeDriver allocatable{VolumeNodeResources} topologyKeys[]
CSINodeSpec drivers[CSINodeDriver]+name
CSIPersistentVolumeSource controllerExpandSecretRef{SecretReference} controllerPublishSecretRef{SecretReference}
  nodeExpandSecretRef{SecretReference} nodePublishSecretRef{SecretReference} nodeStageSecretRef{SecretReference}
  volumeAttributes{}
CSIVolumeSource nodePublishSecretRef{LocalObjectReference} volumeAttributes{}
Capabilities add[] drop[]
CapacityRequirements requests{}
CephFSPersistentVolumeSource monitors[] secretRef{SecretReference}
CephFSVolumeSource monitors[] secretRef{LocalObjectReference}
CertificateSigningRequest metadata{ObjectMeta} spec{CertificateSigningRequestSpec}
  status{CertificateSigningRequestStatus}
CertificateSigningRequestSpec extra{} groups[] usages[]
CertificateSigningRequestStatus conditions[CertificateSigningRequestCondition]
CinderPersistentVolumeSource secretRef{SecretReference}
CinderVolumeSource secretRef{LocalObjectReference}
ClusterRole aggregationRule{AggregationRule} metadata{ObjectMeta} rules[PolicyRule]
ClusterRoleBinding metadata{ObjectMeta} roleRef{RoleRef} subjects[Subject]
ClusterTrustBundleProjection labelSelector{LabelSelector}
ConfigMap binaryData{} data{} metadata{ObjectMeta}
ConfigMapProjection items[KeyToPath]
ConfigMapVolumeSource items[KeyToPath]
Container args[] command[] envFrom[EnvFromSource] env[EnvVar]+name lifecycle{Lifecycle} livenessProbe{Probe}
  ports[ContainerPort]+containerPort readinessProbe{Probe} resizePolicy[ContainerResizePolicy]
  resources{ResourceRequirements} restartPolicyRules[ContainerRestartRule] securityContext{SecurityContext}
  startupProbe{Probe} volumeDevices[VolumeDevice]+devicePath volumeMounts[VolumeMount]+mountPath
ContainerImage names[]
ContainerResourceMetricSource target{MetricTarget}
ContainerResourceMetricStatus current{MetricValueStatus}
ContainerRestartRule exitCodes{ContainerRestartRuleOnExitCodes}
ContainerRestartRuleOnExitCodes values[]
ContainerState running{ContainerStateRunning} terminated{ContainerStateTerminated} waiting{ContainerStateWaiting}
ContainerStatus allocatedResourcesStatus[ResourceStatus]+name allocatedResources{} lastState{ContainerState}
  resources{ResourceRequirements} state{ContainerState} user{ContainerUser} volumeMounts[VolumeMountStatus]+mountPath
ContainerUser linux{LinuxContainerUser}
ControllerRevision data{} metadata{ObjectMeta}
CounterSet counters{}
CronJob metadata{ObjectMeta} spec{CronJobSpec} status{CronJobStatus}
CronJobSpec jobTemplate{JobTemplateSpec}
CronJobStatus active[ObjectReference]
DaemonSet metadata{ObjectMeta} spec{DaemonSetSpec} status{DaemonSetStatus}
DaemonSetSpec selector{LabelSelector} template{PodTemplateSpec} updateStrategy{DaemonSetUpdateStrategy}
DaemonSetStatus conditions[DaemonSetCondition]+type
DaemonSetUpdateStrategy rollingUpdate{RollingUpdateDaemonSet}
Deployment metadata{ObjectMeta} spec{DeploymentSpec} status{DeploymentStatus}
DeploymentSpec selector{LabelSelector} strategy{DeploymentStrategy}! template{PodTemplateSpec}
DeploymentStatus conditions[DeploymentCondition]+type
DeploymentStrategy rollingUpdate{RollingUpdateDeployment}
Device attributes{} bindingConditions[] bindingFailureConditions[] capacity{}
  consumesCounters[DeviceCounterConsumption] nodeAllocatableResourceMappings{} nodeSelector{NodeSelector}
  taints[DeviceTaint]
DeviceAllocationConfiguration opaque{OpaqueDeviceConfiguration} requests[]
DeviceAllocationResult config[DeviceAllocationConfiguration] results[DeviceRequestAllocationResult]
DeviceClaim config[DeviceClaimConfiguration] constraints[DeviceConstraint] requests[DeviceRequest]
DeviceClaimConfiguration opaque{OpaqueDeviceConfiguration} requests[]
DeviceClass metadata{ObjectMeta} spec{DeviceClassSpec}
DeviceClassConfiguration opaque{OpaqueDeviceConfiguration}
DeviceClassSpec config[DeviceClassConfiguration] selectors[DeviceSelector]
DeviceConstraint requests[]
DeviceCounterConsumption counters{}
DeviceRequest exactly{ExactDeviceRequest} firstAvailable[DeviceSubRequest]
DeviceRequestAllocationResult bindingConditions[] bindingFailureConditions[] consumedCapacity{}
  tolerations[DeviceToleration]
DeviceSelector cel{CELDeviceSelector}
DeviceSubRequest capacity{CapacityRequirements} selectors[DeviceSelector] tolerations[DeviceToleration]
DownwardAPIProjection items[DownwardAPIVolumeFile]
DownwardAPIVolumeFile fieldRef{ObjectFieldSelector} resourceFieldRef{ResourceFieldSelector}
DownwardAPIVolumeSource items[DownwardAPIVolumeFile]
Endpoint addresses[] conditions{EndpointConditions} deprecatedTopology{} hints{EndpointHints}
  targetRef{ObjectReference}
EndpointAddress targetRef{ObjectReference}
EndpointHints forNodes[ForNode] forZones[ForZone]
EndpointSlice endpoints[Endpoint] metadata{ObjectMeta} ports[DiscoveryEndpointPort]
EndpointSubset addresses[EndpointAddress] notReadyAddresses[EndpointAddress] ports[EndpointPort]
Endpoints metadata{ObjectMeta} subsets[EndpointSubset]
EnvFromSource configMapRef{ConfigMapEnvSource} secretRef{SecretEnvSource}
EnvVar valueFrom{EnvVarSource}
EnvVarSource configMapKeyRef{ConfigMapKeySelector} fieldRef{ObjectFieldSelector} fileKeyRef{FileKeySelector}
  resourceFieldRef{ResourceFieldSelector} secretKeyRef{SecretKeySelector}
EphemeralContainer args[] command[] envFrom[EnvFromSource] env[EnvVar]+name lifecycle{Lifecycle} livenessProbe{Probe}
  ports[ContainerPort]+containerPort readinessProbe{Probe} resizePolicy[ContainerResizePolicy]
  resources{ResourceRequirements} restartPolicyRules[ContainerRestartRule] securityContext{SecurityContext}
  startupProbe{Probe} volumeDevices[VolumeDevice]+devicePath volumeMounts[VolumeMount]+mountPath
EphemeralVolumeSource volumeClaimTemplate{PersistentVolumeClaimTemplate}
Event involvedObject{ObjectReference} metadata{ObjectMeta} related{ObjectReference} series{EventSeries}
  source{EventSource}
ExactDeviceRequest capacity{CapacityRequirements} selectors[DeviceSelector] tolerations[DeviceToleration]
ExecAction command[]
ExternalMetricSource metric{MetricIdentifier} target{MetricTarget}
ExternalMetricStatus current{MetricValueStatus} metric{MetricIdentifier}
FCVolumeSource targetWWNs[] wwids[]
FlexPersistentVolumeSource options{} secretRef{SecretReference}
FlexVolumeSource options{} secretRef{LocalObjectReference}
HPAScalingRules policies[HPAScalingPolicy]
HTTPGetAction httpHeaders[HTTPHeader]
HTTPIngressPath backend{IngressBackend}
HTTPIngressRuleValue paths[HTTPIngressPath]
HorizontalPodAutoscaler metadata{ObjectMeta} spec{HorizontalPodAutoscalerSpec} status{HorizontalPodAutoscalerStatus}
HorizontalPodAutoscalerBehavior scaleDown{HPAScalingRules} scaleUp{HPAScalingRules}
HorizontalPodAutoscalerSpec behavior{HorizontalPodAutoscalerBehavior} metrics[MetricSpec]
  scaleTargetRef{CrossVersionObjectReference}
HorizontalPodAutoscalerStatus conditions[HorizontalPodAutoscalerCondition]+type currentMetrics[MetricStatus]
HostAlias hostnames[]
IPBlock except[]
ISCSIPersistentVolumeSource portals[] secretRef{SecretReference}
ISCSIVolumeSource portals[] secretRef{LocalObjectReference}
Ingress metadata{ObjectMeta} spec{IngressSpec} status{IngressStatus}
IngressBackend resource{TypedLocalObjectReference} service{IngressServiceBackend}
IngressClass metadata{ObjectMeta} spec{IngressClassSpec}
IngressClassSpec parameters{IngressClassParametersReference}
IngressLoadBalancerIngress ports[IngressPortStatus]
IngressLoadBalancerStatus ingress[IngressLoadBalancerIngress]
IngressRule http{HTTPIngressRuleValue}
IngressServiceBackend port{ServiceBackendPort}
IngressSpec defaultBackend{IngressBackend} rules[IngressRule] tls[IngressTLS]
IngressStatus loadBalancer{IngressLoadBalancerStatus}
IngressTLS hosts[]
Job metadata{ObjectMeta} spec{JobSpec} status{JobStatus}
JobSpec podFailurePolicy{PodFailurePolicy} selector{LabelSelector} successPolicy{SuccessPolicy}
  template{PodTemplateSpec}
JobStatus conditions[JobCondition]+type uncountedTerminatedPods{UncountedTerminatedPods}
JobTemplateSpec metadata{ObjectMeta} spec{JobSpec}
LabelSelector matchExpressions[LabelSelectorRequirement] matchLabels{}
LabelSelectorRequirement values[]
Lease metadata{ObjectMeta} spec{LeaseSpec}
Lifecycle postStart{LifecycleHandler} preStop{LifecycleHandler}
LifecycleHandler exec{ExecAction} httpGet{HTTPGetAction} sleep{SleepAction} tcpSocket{TCPSocketAction}
LimitRange metadata{ObjectMeta} spec{LimitRangeSpec}
LimitRangeItem defaultRequest{} default{} maxLimitRequestRatio{} max{} min{}
LimitRangeSpec limits[LimitRangeItem]
LinuxContainerUser supplementalGroups[]
LoadBalancerIngress ports[PortStatus]
LoadBalancerStatus ingress[LoadBalancerIngress]
ManagedFieldsEntry fieldsV1{}
MetricIdentifier selector{LabelSelector}
MetricSpec containerResource{ContainerResourceMetricSource} external{ExternalMetricSource} object{ObjectMetricSource}
  pods{PodsMetricSource} resource{ResourceMetricSource}
MetricStatus containerResource{ContainerResourceMetricStatus} external{ExternalMetricStatus}
  object{ObjectMetricStatus} pods{PodsMetricStatus} resource{ResourceMetricStatus}
MutatingWebhook admissionReviewVersions[] clientConfig{WebhookClientConfig} matchConditions[MatchCondition]+name
  namespaceSelector{LabelSelector} objectSelector{LabelSelector} rules[RuleWithOperations]
MutatingWebhookConfiguration metadata{ObjectMeta} webhooks[MutatingWebhook]+name
Namespace metadata{ObjectMeta} spec{NamespaceSpec} status{NamespaceStatus}
NamespaceSpec finalizers[]
NamespaceStatus conditions[NamespaceCondition]+type
NetworkDeviceData ips[]
NetworkPolicy metadata{ObjectMeta} spec{NetworkPolicySpec}
NetworkPolicyEgressRule ports[NetworkPolicyPort] to[NetworkPolicyPeer]
NetworkPolicyIngressRule from[NetworkPolicyPeer] ports[NetworkPolicyPort]
NetworkPolicyPeer ipBlock{IPBlock} namespaceSelector{LabelSelector} podSelector{LabelSelector}
NetworkPolicySpec egress[NetworkPolicyEgressRule] ingress[NetworkPolicyIngressRule] podSelector{LabelSelector}
  policyTypes[]
Node metadata{ObjectMeta} spec{NodeSpec} status{NodeStatus}
NodeAffinity preferredDuringSchedulingIgnoredDuringExecution[PreferredSchedulingTerm]
  requiredDuringSchedulingIgnoredDuringExecution{NodeSelector}
NodeAllocatableResourceClaimStatus containers[] resources{}
NodeConfigSource configMap{ConfigMapNodeConfigSource}
NodeConfigStatus active{NodeConfigSource} assigned{NodeConfigSource} lastKnownGood{NodeConfigSource}
NodeDaemonEndpoints kubeletEndpoint{DaemonEndpoint}
NodeRuntimeHandler features{NodeRuntimeHandlerFeatures}
NodeSelector nodeSelectorTerms[NodeSelectorTerm]
NodeSelectorRequirement values[]
NodeSelectorTerm matchExpressions[NodeSelectorRequirement] matchFields[NodeSelectorRequirement]
NodeSpec configSource{NodeConfigSource} podCIDRs[]+ taints[Taint]
NodeStatus addresses[NodeAddress]+type allocatable{} capacity{} conditions[NodeCondition]+type
  config{NodeConfigStatus} daemonEndpoints{NodeDaemonEndpoints} declaredFeatures[] features{NodeFeatures}
  images[ContainerImage] nodeInfo{NodeSystemInfo} runtimeHandlers[NodeRuntimeHandler] volumesAttached[AttachedVolume]
  volumesInUse[]
NodeSystemInfo swap{NodeSwapStatus}
ObjectMeta annotations{} finalizers[]+ labels{} managedFields[ManagedFieldsEntry] ownerReferences[OwnerReference]+uid
ObjectMetricSource describedObject{CrossVersionObjectReference} metric{MetricIdentifier} target{MetricTarget}
ObjectMetricStatus current{MetricValueStatus} describedObject{CrossVersionObjectReference} metric{MetricIdentifier}
OpaqueDeviceConfiguration parameters{}
PersistentVolume metadata{ObjectMeta} spec{PersistentVolumeSpec} status{PersistentVolumeStatus}
PersistentVolumeClaim metadata{ObjectMeta} spec{PersistentVolumeClaimSpec} status{PersistentVolumeClaimStatus}
PersistentVolumeClaimSpec accessModes[] dataSourceRef{TypedObjectReference} dataSource{TypedLocalObjectReference}
  resources{VolumeResourceRequirements} selector{LabelSelector}
PersistentVolumeClaimStatus accessModes[] allocatedResourceStatuses{} allocatedResources{} capacity{}
  conditions[PersistentVolumeClaimCondition]+type modifyVolumeStatus{ModifyVolumeStatus}
PersistentVolumeClaimTemplate metadata{ObjectMeta} spec{PersistentVolumeClaimSpec}
PersistentVolumeSpec accessModes[] awsElasticBlockStore{AWSElasticBlockStoreVolumeSource}
  azureDisk{AzureDiskVolumeSource} azureFile{AzureFilePersistentVolumeSource} capacity{}
  cephfs{CephFSPersistentVolumeSource} cinder{CinderPersistentVolumeSource} claimRef{ObjectReference}
  csi{CSIPersistentVolumeSource} fc{FCVolumeSource} flexVolume{FlexPersistentVolumeSource}
  flocker{FlockerVolumeSource} gcePersistentDisk{GCEPersistentDiskVolumeSource}
  glusterfs{GlusterfsPersistentVolumeSource} hostPath{HostPathVolumeSource} iscsi{ISCSIPersistentVolumeSource}
  local{LocalVolumeSource} mountOptions[] nfs{NFSVolumeSource} nodeAffinity{VolumeNodeAffinity}
  photonPersistentDisk{PhotonPersistentDiskVolumeSource} portworxVolume{PortworxVolumeSource}
  quobyte{QuobyteVolumeSource} rbd{RBDPersistentVolumeSource} scaleIO{ScaleIOPersistentVolumeSource}
  storageos{StorageOSPersistentVolumeSource} vsphereVolume{VsphereVirtualDiskVolumeSource}
Pod metadata{ObjectMeta} spec{PodSpec} status{PodStatus}
PodAffinity preferredDuringSchedulingIgnoredDuringExecution[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution[PodAffinityTerm]
PodAffinityTerm labelSelector{LabelSelector} matchLabelKeys[] mismatchLabelKeys[] namespaceSelector{LabelSelector}
  namespaces[]
PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution[WeightedPodAffinityTerm]
  requiredDuringSchedulingIgnoredDuringExecution[PodAffinityTerm]
PodCertificateProjection userAnnotations{}
PodDNSConfig nameservers[] options[PodDNSConfigOption] searches[]
PodDisruptionBudget metadata{ObjectMeta} spec{PodDisruptionBudgetSpec} status{PodDisruptionBudgetStatus}
PodDisruptionBudgetSpec selector{LabelSelector}=
PodDisruptionBudgetStatus conditions[Condition]+type disruptedPods{}
PodExtendedResourceClaimStatus requestMappings[ContainerExtendedResourceRequest]
PodFailurePolicy rules[PodFailurePolicyRule]
PodFailurePolicyOnExitCodesRequirement values[]
PodFailurePolicyRule onExitCodes{PodFailurePolicyOnExitCodesRequirement}
  onPodConditions[PodFailurePolicyOnPodConditionsPattern]
PodSecurityContext appArmorProfile{AppArmorProfile} seLinuxOptions{SELinuxOptions} seccompProfile{SeccompProfile}
  supplementalGroups[] sysctls[Sysctl] windowsOptions{WindowsSecurityContextOptions}
PodSpec affinity{Affinity} containers[Container]+name dnsConfig{PodDNSConfig}
  ephemeralContainers[EphemeralContainer]+name hostAliases[HostAlias]+ip imagePullSecrets[LocalObjectReference]+name
  initContainers[Container]+name nodeSelector{} os{PodOS} overhead{} readinessGates[PodReadinessGate]
  resourceClaims[PodResourceClaim]+name! resources{ResourceRequirements} schedulingGates[PodSchedulingGate]+name
  schedulingGroup{PodSchedulingGroup} securityContext{PodSecurityContext} tolerations[Toleration]
  topologySpreadConstraints[TopologySpreadConstraint]+topologyKey volumes[Volume]+name!
PodStatus allocatedResources{} conditions[PodCondition]+type containerStatuses[ContainerStatus]
  ephemeralContainerStatuses[ContainerStatus] extendedResourceClaimStatus{PodExtendedResourceClaimStatus}
  hostIPs[HostIP]+ip initContainerStatuses[ContainerStatus]
  nodeAllocatableResourceClaimStatuses[NodeAllocatableResourceClaimStatus] podIPs[PodIP]+ip
  resourceClaimStatuses[PodResourceClaimStatus]+name! resources{ResourceRequirements}
PodTemplate metadata{ObjectMeta} template{PodTemplateSpec}
PodTemplateSpec metadata{ObjectMeta} spec{PodSpec}
PodsMetricSource metric{MetricIdentifier} target{MetricTarget}
PodsMetricStatus current{MetricValueStatus} metric{MetricIdentifier}
PolicyRule apiGroups[] nonResourceURLs[] resourceNames[] resources[] verbs[]
PreferredSchedulingTerm preference{NodeSelectorTerm}
PriorityClass metadata{ObjectMeta}
Probe exec{ExecAction} grpc{GRPCAction} httpGet{HTTPGetAction} tcpSocket{TCPSocketAction}
ProjectedVolumeSource sources[VolumeProjection]
RBDPersistentVolumeSource monitors[] secretRef{SecretReference}
RBDVolumeSource monitors[] secretRef{LocalObjectReference}
ReplicaSet metadata{ObjectMeta} spec{ReplicaSetSpec} status{ReplicaSetStatus}
ReplicaSetSpec selector{LabelSelector} template{PodTemplateSpec}
ReplicaSetStatus conditions[ReplicaSetCondition]+type
ReplicationController metadata{ObjectMeta} spec{ReplicationControllerSpec} status{ReplicationControllerStatus}
ReplicationControllerSpec selector{} template{PodTemplateSpec}
ReplicationControllerStatus conditions[ReplicationControllerCondition]+type
ResourceClaim metadata{ObjectMeta} spec{ResourceClaimSpec} status{ResourceClaimStatus}
ResourceClaimSpec devices{DeviceClaim}
ResourceClaimStatus allocation{AllocationResult} devices[AllocatedDeviceStatus]
  reservedFor[ResourceClaimConsumerReference]+uid
ResourceClaimTemplate metadata{ObjectMeta} spec{ResourceClaimTemplateSpec}
ResourceClaimTemplateSpec metadata{ObjectMeta} spec{ResourceClaimSpec}
ResourceMetricSource target{MetricTarget}
ResourceMetricStatus current{MetricValueStatus}
ResourceQuota metadata{ObjectMeta} spec{ResourceQuotaSpec} status{ResourceQuotaStatus}
ResourceQuotaSpec hard{} scopeSelector{ScopeSelector} scopes[]
ResourceQuotaStatus hard{} used{}
ResourceRequirements claims[ContainerResourceClaim] limits{} requests{}
ResourceSlice metadata{ObjectMeta} spec{ResourceSliceSpec}
ResourceSliceSpec devices[Device] nodeSelector{NodeSelector} pool{ResourcePool} sharedCounters[CounterSet]
ResourceStatus resources[ResourceHealth]
Role metadata{ObjectMeta} rules[PolicyRule]
RoleBinding metadata{ObjectMeta} roleRef{RoleRef} subjects[Subject]
RuleWithOperations apiGroups[] apiVersions[] operations[] resources[]
ScaleIOPersistentVolumeSource secretRef{SecretReference}
ScaleIOVolumeSource secretRef{LocalObjectReference}
ScopeSelector matchExpressions[ScopedResourceSelectorRequirement]
ScopedResourceSelectorRequirement values[]
Secret data{} metadata{ObjectMeta} stringData{}
SecretProjection items[KeyToPath]
SecretVolumeSource items[KeyToPath]
SecurityContext appArmorProfile{AppArmorProfile} capabilities{Capabilities} seLinuxOptions{SELinuxOptions}
  seccompProfile{SeccompProfile} windowsOptions{WindowsSecurityContextOptions}
Service metadata{ObjectMeta} spec{ServiceSpec} status{ServiceStatus}
ServiceAccount imagePullSecrets[LocalObjectReference] metadata{ObjectMeta} secrets[ObjectReference]+name
ServiceSpec clusterIPs[] externalIPs[] ipFamilies[] loadBalancerSourceRanges[] ports[ServicePort]+port selector{}
  sessionAffinityConfig{SessionAffinityConfig}
ServiceStatus conditions[Condition]+type loadBalancer{LoadBalancerStatus}
SessionAffinityConfig clientIP{ClientIPConfig}
StatefulSet metadata{ObjectMeta} spec{StatefulSetSpec} status{StatefulSetStatus}
StatefulSetSpec ordinals{StatefulSetOrdinals}
  persistentVolumeClaimRetentionPolicy{StatefulSetPersistentVolumeClaimRetentionPolicy} selector{LabelSelector}
  template{PodTemplateSpec} updateStrategy{StatefulSetUpdateStrategy} volumeClaimTemplates[PersistentVolumeClaim]
StatefulSetStatus conditions[StatefulSetCondition]+type
StatefulSetUpdateStrategy rollingUpdate{RollingUpdateStatefulSetStrategy}
StorageClass allowedTopologies[TopologySelectorTerm] metadata{ObjectMeta} mountOptions[] parameters{}
StorageOSPersistentVolumeSource secretRef{ObjectReference}
StorageOSVolumeSource secretRef{LocalObjectReference}
SuccessPolicy rules[SuccessPolicyRule]
TopologySelectorLabelRequirement values[]
TopologySelectorTerm matchLabelExpressions[TopologySelectorLabelRequirement]
TopologySpreadConstraint labelSelector{LabelSelector} matchLabelKeys[]
UncountedTerminatedPods failed[] succeeded[]
ValidatingWebhook admissionReviewVersions[] clientConfig{WebhookClientConfig} matchConditions[MatchCondition]+name
  namespaceSelector{LabelSelector} objectSelector{LabelSelector} rules[RuleWithOperations]
ValidatingWebhookConfiguration metadata{ObjectMeta} webhooks[ValidatingWebhook]+name
Volume awsElasticBlockStore{AWSElasticBlockStoreVolumeSource} azureDisk{AzureDiskVolumeSource}
  azureFile{AzureFileVolumeSource} cephfs{CephFSVolumeSource} cinder{CinderVolumeSource}
  configMap{ConfigMapVolumeSource} csi{CSIVolumeSource} downwardAPI{DownwardAPIVolumeSource}
  emptyDir{EmptyDirVolumeSource} ephemeral{EphemeralVolumeSource} fc{FCVolumeSource} flexVolume{FlexVolumeSource}
  flocker{FlockerVolumeSource} gcePersistentDisk{GCEPersistentDiskVolumeSource} gitRepo{GitRepoVolumeSource}
  glusterfs{GlusterfsVolumeSource} hostPath{HostPathVolumeSource} image{ImageVolumeSource} iscsi{ISCSIVolumeSource}
  nfs{NFSVolumeSource} persistentVolumeClaim{PersistentVolumeClaimVolumeSource}
  photonPersistentDisk{PhotonPersistentDiskVolumeSource} portworxVolume{PortworxVolumeSource}
  projected{ProjectedVolumeSource} quobyte{QuobyteVolumeSource} rbd{RBDVolumeSource} scaleIO{ScaleIOVolumeSource}
  secret{SecretVolumeSource} storageos{StorageOSVolumeSource} vsphereVolume{VsphereVirtualDiskVolumeSource}
VolumeAttachment metadata{ObjectMeta} spec{VolumeAttachmentSpec} status{VolumeAttachmentStatus}
VolumeAttachmentSource inlineVolumeSpec{PersistentVolumeSpec}
VolumeAttachmentSpec source{VolumeAttachmentSource}
VolumeAttachmentStatus attachError{VolumeError} attachmentMetadata{} detachError{VolumeError}
VolumeMountStatus volumeStatus{VolumeStatus}
VolumeNodeAffinity required{NodeSelector}
VolumeProjection clusterTrustBundle{ClusterTrustBundleProjection} configMap{ConfigMapProjection}
  downwardAPI{DownwardAPIProjection} podCertificate{PodCertificateProjection} secret{SecretProjection}
  serviceAccountToken{ServiceAccountTokenProjection}
VolumeResourceRequirements limits{} requests{}
VolumeStatus image{ImageVolumeStatus}
WebhookClientConfig service{AdmissionServiceReference}
WeightedPodAffinityTerm podAffinityTerm{PodAffinityTerm}
)";

std::string_view strategic_table() noexcept {
  return kText;
}

namespace {

using Types = std::map<std::string, StrategicType, std::less<>>;

// `word` is name{Type} or name[Type] with its marks.
void add_field(Types& types, StrategicType& type, std::string_view word) {
  const std::size_t open = word.find_first_of("{[");
  const std::size_t close = word.find_first_of("}]");
  BASCULE_CHECK(open < close && close < word.size(), "a field of the strategic table has brackets");
  StrategicField field{.list = word[open] == '[', .merge_key = {}};
  if (const std::string name(word.substr(open + 1, close - open - 1)); !name.empty()) {
    StrategicType& inner = types[name];
    inner.name = name;
    field.type = &inner;
  }
  std::string_view marks = word.substr(close + 1);
  if (marks.ends_with('!')) {
    field.retain_keys = true;
    marks.remove_suffix(1);
  }
  field.replaces = marks == "=";
  field.merges = marks.starts_with('+');
  if (field.merges) field.merge_key = marks.substr(1);
  type.fields.emplace(word.substr(0, open), std::move(field));
}

Types parse_table(std::string_view text) {
  Types types;
  StrategicType* type = nullptr;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    bool first = !line.starts_with(' ');
    for (std::string_view rest = line; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(word.size() + 1, rest.size()));
      if (word.empty()) continue;
      if (std::exchange(first, false)) {
        type = &types[std::string(word)];
        type->name = word;
      } else if (type->name != "kinds") {
        add_field(types, *type, word);
      }
    }
  }
  types.erase("kinds");
  return types;
}

}  // namespace

const StrategicType* strategic_type(std::string_view name) {
  static const Types types = parse_table(kText);
  const auto at = types.find(name);
  return at == types.end() ? nullptr : &at->second;
}

}  // namespace bascule::json::detail

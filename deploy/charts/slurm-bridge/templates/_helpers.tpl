{{/* What the templates need where null or "" took a default away. Each of them begins with it. */}}
{{- define "slurm-bridge.complete" -}}
{{- $needed := `
scheduler: {pdb: {}, image: {repository: ghcr.io/bascule/bascule, pullPolicy: IfNotPresent}}
schedulerConfig: {schedulerName: slurm-bridge-scheduler}
admission:
  image: {repository: ghcr.io/bascule/bascule, pullPolicy: IfNotPresent}
  certManager: {duration: 43800h0m0s, renewBefore: 8760h0m0s}
  tls: {}
  pdb: {}
  failurePolicy: Fail
  timeoutSeconds: 10
controllers: {pdb: {}, image: {repository: ghcr.io/bascule/bascule, pullPolicy: IfNotPresent}}
sharedConfig: {slurmRestApi: "http://slurm-restapi.slurm:6820", slurmJwtSecret: slurm-bridge-token}
networkPolicy: {}
serviceMonitor: {interval: 30s}
prometheusRule: {}
grafana: {dashboard: {}}
` | fromYaml -}}
{{- $_ := merge .Values $needed -}}
{{- end -}}

{{/* As in the original chart: fullnameOverride and the release's name have no part in it. */}}
{{- define "slurm-bridge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slurm-bridge.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* The name of a component's objects; the scheduler's follows its scheduler name. Call with (dict "root" $ "component" C). */}}
{{- define "slurm-bridge.component" -}}
{{- if eq .component "scheduler" -}}
{{- .root.Values.schedulerConfig.schedulerName -}}
{{- else -}}
{{- printf "%s-%s" (include "slurm-bridge.name" .root | trunc 50 | trimSuffix "-") .component -}}
{{- end -}}
{{- end -}}

{{/* The name of a component's container, the original's. */}}
{{- define "slurm-bridge.containerName" -}}
{{- eq .component "scheduler" | ternary "scheduler" (include "slurm-bridge.component" .) -}}
{{- end -}}

{{- define "slurm-bridge.selectorLabels" -}}
app.kubernetes.io/name: {{ include "slurm-bridge.component" . }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "slurm-bridge.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/component: {{ .component }}
{{ include "slurm-bridge.selectorLabels" . }}
{{- end -}}

{{/* metadata of an object of a component, at two spaces */}}
{{- define "slurm-bridge.metadata" -}}
metadata:
  name: {{ include "slurm-bridge.component" . }}
  namespace: {{ include "slurm-bridge.namespace" .root }}
  labels:
    {{- include "slurm-bridge.labels" . | nindent 4 }}
{{- end -}}

{{- define "slurm-bridge.clusterMetadata" -}}
metadata:
  name: {{ include "slurm-bridge.component" . }}
  labels:
    {{- include "slurm-bridge.labels" . | nindent 4 }}
{{- end -}}

{{/* Name and key of Slurm's token. */}}
{{- define "slurm-bridge.tokenSecret" -}}
{{- $secret := .Values.sharedConfig.slurmJwtSecret -}}
{{- if kindIs "string" $secret }}{{ $secret = dict "name" $secret }}{{ end -}}
{{- toYaml (dict "name" $secret.name "key" ($secret.key | default "auth-token")) -}}
{{- end -}}

{{/* The configuration file: one text for all processes, so that one checksum restarts them all. */}}
{{- define "slurm-bridge.config" -}}
{{- $admission := .Values.admission -}}
schedulerName: {{ .Values.schedulerConfig.schedulerName | quote }}
slurmRestApi: {{ .Values.sharedConfig.slurmRestApi | quote }}
{{- if $admission.managedNamespaceSelector }}
managedNamespaceSelector:
  {{- toYaml $admission.managedNamespaceSelector | nindent 2 }}
{{- else }}
managedNamespaces: {{ toJson ($admission.managedNamespaces | default list) }}
{{- end }}
mcsLabel: {{ .Values.schedulerConfig.mcsLabel | default "" | quote }}
partition: {{ .Values.schedulerConfig.partition | default "" | quote }}
{{- $ns := include "slurm-bridge.namespace" . }}
trustedUsers:
  {{- range $component := list "scheduler" "controllers" }}
  - {{ printf "system:serviceaccount:%s:%s" $ns (include "slurm-bridge.component" (dict "root" $ "component" $component)) | quote }}
  {{- end }}
  {{- range $admission.trustedUsers }}
  - {{ . | quote }}
  {{- end }}
{{- with .Values.sharedConfig.identities }}
identities:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.sharedConfig.deviceDrivers }}
deviceDrivers:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* "true" when nobody but the chart and the webhook itself makes its certificate. */}}
{{- define "slurm-bridge.ownCertificate" -}}
{{- and .Values.admission.enabled (not .Values.admission.certManager.enabled) (not .Values.admission.tls.existingSecret) -}}
{{- end -}}

{{/* JSON list of the DNS names that certificate is for. */}}
{{- define "slurm-bridge.certificateNames" -}}
{{- $host := printf "%s.%s" (include "slurm-bridge.component" (dict "root" . "component" "admission")) (include "slurm-bridge.namespace" .) -}}
{{- list $host (printf "%s.svc" $host) (printf "%s.svc.cluster.local" $host) | toJson -}}
{{- end -}}

{{/* "true" or "false": asked for, or needed because there are several. Call with (dict "replicas" N "asked" B). */}}
{{- define "slurm-bridge.leaderElect" -}}
{{- or .asked (gt (int .replicas) 1) -}}
{{- end -}}

{{/* The container of a component. Call with (dict "root" $ "component" C "values" V "args" LIST "slurm" B "ports" DICT). */}}
{{- define "slurm-bridge.container" -}}
name: {{ include "slurm-bridge.containerName" . }}
image: {{ printf "%s:%v" .values.image.repository (.values.image.tag | default .root.Chart.AppVersion) | quote }}
imagePullPolicy: {{ .values.image.pullPolicy }}
args:
  - {{ .component }}
  - --config=/etc/slurm-bridge/config.yaml
  - --metrics-bind-address=:8080
  - --health-probe-bind-address=:8081
  - {{ printf "--zap-log-level=%v" (has .values.verbosity (list nil "") | ternary "info" .values.verbosity) | quote }}
  {{- range .args }}
  - {{ . | quote }}
  {{- end }}
{{- if .slurm }}
env:
  - name: SLURM_JWT_FILE
    value: /var/run/secrets/slurm/auth-token
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  - name: POD_NAMESPACE
    valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- end }}
ports:
  {{- if eq .component "admission" }}
  - {name: https, containerPort: 9443, protocol: TCP}
  {{- end }}
  - {name: metrics, containerPort: 8080, protocol: TCP}
  - {name: health, containerPort: 8081, protocol: TCP}
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
  timeoutSeconds: 5
{{- with .values.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  - {name: slurm-bridge-config, mountPath: /etc/slurm-bridge, readOnly: true}
  {{- if .slurm }}
  - {name: slurm-jwt, mountPath: /var/run/secrets/slurm, readOnly: true}
  {{- end }}
  {{- if eq .component "admission" }}
  - {name: certificates, mountPath: /tmp/k8s-webhook-server/serving-certs, readOnly: true}
  {{- end }}
{{- end -}}

{{/* The Deployment of a component. As above, with "replicas" and "elects" (leader election: several may run at once). */}}
{{- define "slurm-bridge.deployment" -}}
apiVersion: apps/v1
kind: Deployment
{{ include "slurm-bridge.metadata" . }}
spec:
  replicas: {{ .replicas }}
  {{- if not .elects }}
  # Without leader election the old one must be gone before the new one starts.
  strategy: {type: Recreate}
  {{- end }}
  selector:
    matchLabels:
      {{- include "slurm-bridge.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "slurm-bridge.labels" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ include "slurm-bridge.containerName" . }}
        checksum/config: {{ include "slurm-bridge.config" .root | sha256sum }}
    spec:
      serviceAccountName: {{ include "slurm-bridge.component" . }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if and (gt (int .replicas) 1) (not .values.affinity) }}
      # One dead node must not take all of them.
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "slurm-bridge.selectorLabels" . | nindent 14 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        -
          {{- include "slurm-bridge.container" . | nindent 10 }}
      volumes:
        - name: slurm-bridge-config
          configMap: {name: slurm-bridge-config}
        {{- if .slurm }}
        - name: slurm-jwt
          secret:
            {{- $token := include "slurm-bridge.tokenSecret" .root | fromYaml }}
            secretName: {{ $token.name }}
            defaultMode: 0440
            items: [{key: {{ $token.key }}, path: auth-token}]
        {{- end }}
        {{- if eq .component "admission" }}
        - name: certificates
          secret:
            secretName: {{ .values.tls.existingSecret | default (include "slurm-bridge.component" .) }}
            defaultMode: 0440
            items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
        {{- end }}
{{- end -}}

{{/* A budget that never blocks a drain for good: at least one pod may always go. */}}
{{- define "slurm-bridge.pdb" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "slurm-bridge.name" .root }}-{{ .component }}
  namespace: {{ include "slurm-bridge.namespace" .root }}
  labels:
    {{- include "slurm-bridge.labels" . | nindent 4 }}
spec:
  {{- $min := .values.pdb.minAvailable }}
  {{- $max := .values.pdb.maxUnavailable }}
  {{- $given := not (kindIs "invalid" $max) }}
  {{- $fits := and (not (kindIs "invalid" $min)) (or (kindIs "string" $min) (lt (int $min) (int .replicas))) }}
  {{- if and $given (ne (toString $max) "0") (ne (toString $max) "0%") }}
  maxUnavailable: {{ $max }}
  {{- else if and (not $given) $fits }}
  minAvailable: {{ $min }}
  {{- else }}
  maxUnavailable: 1
  {{- end }}
  selector:
    matchLabels:
      {{- include "slurm-bridge.selectorLabels" . | nindent 6 }}
{{- end -}}

{{/* What the templates need where null, "" or 0 took a default away. Each of them begins with it. */}}
{{- define "slurm-operator.complete" -}}
{{- $needed := `
crds: {}
certManager: {secretName: slurm-operator-webhook-ca, duration: 43800h0m0s, renewBefore: 8760h0m0s}
operator: {logLevel: info, healthPort: 8081, serviceAccount: {}, pdb: {}}
webhook:
  logLevel: info
  healthPort: 8081
  serverPort: 9443
  timeoutSeconds: 10
  serviceAccount: {}
  pdb: {}
  validating: {failurePolicy: Fail, matchPolicy: Equivalent}
  mutating: {failurePolicy: Ignore, matchPolicy: Equivalent}
serviceMonitor: {interval: 30s}
prometheusRule: {}
grafana: {dashboard: {}}
` | fromYaml -}}
{{- $_ := merge .Values $needed -}}
{{- end -}}

{{- define "slurm-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slurm-operator.fullname" -}}
{{- $name := include "slurm-operator.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "slurm-operator.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* Name of a component's objects, as in the original chart after the chart, whatever the release is called.
     Call with (dict "root" $ "component" "operator" or "webhook"). */}}
{{- define "slurm-operator.component" -}}
{{- $name := include "slurm-operator.name" .root -}}
{{- eq .component "operator" | ternary $name (printf "%s-%s" ($name | trunc 55 | trimSuffix "-") .component) -}}
{{- end -}}

{{/* Name of a component's roles, the operator's account among them: after the release, so that two may stand side by
     side. Call as above. */}}
{{- define "slurm-operator.role" -}}
{{- $name := include "slurm-operator.fullname" .root -}}
{{- eq .component "operator" | ternary $name (printf "%s-%s" ($name | trunc 55 | trimSuffix "-") .component) -}}
{{- end -}}

{{- define "slurm-operator.account" -}}
{{- $account := (get .root.Values .component).serviceAccount -}}
{{- $own := include (eq .component "operator" | ternary "slurm-operator.role" "slurm-operator.component") . -}}
{{- $account.name | default (empty $account.create | ternary "default" $own) -}}
{{- end -}}

{{/* JSON list of the DNS names of the certificate that the chart makes and the webhook renews. */}}
{{- define "slurm-operator.certificateNames" -}}
{{- $name := include "slurm-operator.component" (dict "root" . "component" "webhook") -}}
{{- $host := printf "%s.%s" $name (include "slurm-operator.namespace" .) -}}
{{- list $name $host (printf "%s.svc" $host) (printf "%s.svc.cluster.local" $host) | toJson -}}
{{- end -}}

{{/* "true" when a certificate (a Secret's data, PEM in base64) names the host: its DER has the name as a dNSName, with
     tag and length before it. Call with (dict "pem" DATA "host" H). */}}
{{- define "slurm-operator.names" -}}
{{- $der := regexFind "-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\\s]+" (b64dec .pem) | replace "-----BEGIN CERTIFICATE-----" "" | nospace | b64dec -}}
{{- $name := lt (len .host) 128 | ternary (printf "\x82%c%s" (len .host) .host) .host -}}
{{- contains $name $der -}}
{{- end -}}

{{/* The name of a component's container, the original's. */}}
{{- define "slurm-operator.containerName" -}}
{{- eq .component "operator" | ternary "slurm-operator" .component -}}
{{- end -}}

{{- define "slurm-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "slurm-operator.component" . }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "slurm-operator.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: slurm-operator
app.kubernetes.io/component: {{ .component }}
{{ include "slurm-operator.selectorLabels" . }}
{{- end -}}

{{- define "slurm-operator.metadata" -}}
metadata:
  name: {{ include "slurm-operator.component" . }}
  namespace: {{ include "slurm-operator.namespace" .root }}
  labels:
    {{- include "slurm-operator.labels" . | nindent 4 }}
{{- end -}}

{{/* Call with the component's values and the root. */}}
{{- define "slurm-operator.image" -}}
{{- $image := .values.image -}}
{{- if kindIs "string" $image -}}
{{- required (printf "%s.image is empty; name an image" .component) $image -}}
{{- else -}}
{{- $repository := required (printf "%s.image.repository is needed" .component) (get ($image | default dict) "repository") -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%v" $repository ($image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The port as text. The schema checks its range; texts are checked here. Call with (dict "name" N "port" P). */}}
{{- define "slurm-operator.port" -}}
{{- $text := kindIs "float64" .port | ternary (printf "%.0f" (float64 .port)) (toString .port) -}}
{{- if not (regexMatch "^(0|[1-9][0-9]{0,4})$" $text) -}}
{{- fail (printf "%s: %q is not a port; a number from 0 to 65535 is meant" .name $text) -}}
{{- end -}}
{{- if gt (int $text) 65535 -}}
{{- fail (printf "%s: %s is not a port; a number from 0 to 65535 is meant" .name $text) -}}
{{- end -}}
{{- $text -}}
{{- end -}}

{{- define "slurm-operator.metricsPort" -}}
{{- $given := kindIs "invalid" .values.metricsPort | ternary 0 .values.metricsPort -}}
{{- $port := include "slurm-operator.port" (dict "name" (printf "%s.metricsPort" .component) "port" $given) -}}
{{- if and .values.metricsSecure (eq $port "0") -}}
{{- fail (printf "%s.metricsSecure needs a metricsPort other than 0" .component) -}}
{{- end -}}
{{- $port -}}
{{- end -}}

{{/* JSON list of the components that serve metrics. */}}
{{- define "slurm-operator.measured" -}}
{{- $list := list -}}
{{- range $component := list "operator" "webhook" -}}
{{- $values := get $.Values $component -}}
{{- if and $values.enabled (ne "0" (include "slurm-operator.metricsPort" (dict "component" $component "values" $values))) -}}{{- $list = append $list $component -}}{{- end -}}
{{- end -}}
{{- if not $list -}}{{- fail "serviceMonitor.enabled needs operator.metricsPort or webhook.metricsPort: there is nothing to scrape" -}}{{- end -}}
{{- toJson $list -}}
{{- end -}}

{{/* JSON list of the namespaces in a comma list, blanks removed. */}}
{{- define "slurm-operator.namespaces" -}}
{{- $list := list -}}
{{- range splitList "," (. | default "") -}}
{{- with trim . }}{{ $list = append $list . }}{{ end -}}
{{- end -}}
{{- $list | uniq | toJson -}}
{{- end -}}

{{/* Arguments both components have, in a fixed order. */}}
{{- define "slurm-operator.listen" -}}
{{- $metrics := include "slurm-operator.metricsPort" . -}}
- --health-addr=:{{ include "slurm-operator.port" (dict "name" (printf "%s.healthPort" .component) "port" .values.healthPort) }}
- --metrics-addr={{ eq $metrics "0" | ternary "0" (printf ":%s" $metrics) }}
{{- if .values.metricsSecure }}
- --metrics-secure
{{- end }}
{{- end -}}

{{/* Deployment of a component. "args": the texts after the subcommand; "command": the subcommand. */}}
{{- define "slurm-operator.deployment" -}}
{{- $metrics := include "slurm-operator.metricsPort" . -}}
apiVersion: apps/v1
kind: Deployment
{{ include "slurm-operator.metadata" . }}
spec:
  replicas: {{ .values.replicas }}
  revisionHistoryLimit: 0
  strategy:
    {{- toYaml .strategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "slurm-operator.selectorLabels" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "slurm-operator.labels" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ include "slurm-operator.containerName" . }}
    spec:
      serviceAccountName: {{ include "slurm-operator.account" . }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- range $key := list "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" }}
      {{- with get $.values $key }}
      {{ $key }}:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      {{- with .values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ include "slurm-operator.containerName" . }}
          image: {{ include "slurm-operator.image" . | quote }}
          imagePullPolicy: {{ .values.imagePullPolicy | default .root.Values.imagePullPolicy | default "IfNotPresent" }}
          args:
            - {{ .command }}
            {{- .args | nindent 12 }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
          ports:
            {{- if eq .component "webhook" }}
            - {name: https, containerPort: {{ .values.serverPort }}, protocol: TCP}
            {{- end }}
            {{- if ne $metrics "0" }}
            - {name: metrics, containerPort: {{ $metrics }}, protocol: TCP}
            {{- end }}
            - {name: health, containerPort: {{ .values.healthPort }}, protocol: TCP}
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
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with .values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if eq .component "webhook" }}
          volumeMounts:
            - {name: certificates, mountPath: /tmp/k8s-webhook-server/serving-certs, readOnly: true}
          {{- end }}
      {{- if eq .component "webhook" }}
      volumes:
        - name: certificates
          secret:
            secretName: {{ .root.Values.certManager.secretName }}
            defaultMode: 0440
            items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
      {{- end }}
{{- end -}}

{{- define "slurm-operator.pdb" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "slurm-operator.metadata" . }}
spec:
  {{- if not (kindIs "invalid" .values.pdb.maxUnavailable) }}
  maxUnavailable: {{ .values.pdb.maxUnavailable }}
  {{- else }}
  minAvailable: {{ kindIs "invalid" .values.pdb.minAvailable | ternary 1 .values.pdb.minAvailable }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "slurm-operator.selectorLabels" . | nindent 6 }}
{{- end -}}

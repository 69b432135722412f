{{/* What the templates need where null took a default away. Each of them begins with it. */}}
{{- define "slurm.complete" -}}
{{- $needed := `
imagePullPolicy: IfNotPresent
priorityClass: {name: slurm-system-critical}
slurmKey: {}
jwtKey: {}
jwksKeys: {}
controller: {slurmctld: {}, reconfigure: {}, logfile: {}, ha: {}, persistence: {}, metrics: {}}
restapi: {slurmrestd: {}, pdb: {}}
accounting: {slurmdbd: {}}
sssd: {}
loginsetDefaults: {}
loginsets: {}
nodesetDefaults: {}
nodesets: {}
partitions: {}
vendor:
  nvidia: {dcgm: {jobMappingDir: /var/lib/dcgm-exporter/job-mapping, scriptPriority: "90"}}
  google: {a3mega: [], a3ultra: []}
` | fromYaml -}}
{{- $_ := merge .Values $needed -}}
{{- end -}}

{{- define "slurm.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slurm.fullname" -}}
{{- $name := include "slurm.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "slurm.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* No versions: the operator copies labels of its resources to pods, and an upgrade of the chart alone must not make them anew. */}}
{{- define "slurm.labels" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: {{ include "slurm.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* metadata of an object: (dict "root" $ "name" N ["more" METADATA]) */}}
{{- define "slurm.metadata" -}}
{{- $more := .more | default dict -}}
{{- $labels := merge (dict) ($more.labels | default dict) (include "slurm.labels" .root | fromYaml) -}}
{{- $metadata := dict "name" .name "namespace" (include "slurm.namespace" .root) "labels" $labels -}}
{{- with $more.annotations }}{{ $_ := set $metadata "annotations" . }}{{ end -}}
{{- toYaml $metadata -}}
{{- end -}}

{{/*
Objects as JSON, which `fromJson` reads: functions that return something else than text.
*/}}

{{/* Without keys that are null or empty maps or lists. */}}
{{- define "slurm.present" -}}
{{- $out := dict -}}
{{- range $key, $value := . -}}
{{- $nothing := kindIs "invalid" $value -}}
{{- if or (kindIs "map" $value) (kindIs "slice" $value) -}}{{- $nothing = empty $value -}}{{- end -}}
{{- if not $nothing -}}{{- $_ := set $out $key $value -}}{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{/* Without keys that are null, however deep: the API server refuses them. */}}
{{- define "slurm.said" -}}
{{- $out := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}
{{- $value = include "slurm.said" $value | fromJson -}}
{{- else if kindIs "slice" $value -}}
{{- $list := list -}}
{{- range $item := $value -}}
{{- if kindIs "map" $item -}}{{- $item = include "slurm.said" $item | fromJson -}}{{- end -}}
{{- $list = append $list $item -}}
{{- end -}}
{{- $value = $list -}}
{{- end -}}
{{- if not (kindIs "invalid" $value) -}}{{- $_ := set $out $key $value -}}{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{/* (list BASE OVER): maps key by key, everything else as OVER has it, also 0, false and "". */}}
{{- define "slurm.over" -}}
{{- $out := deepCopy (first .) -}}
{{- range $key, $value := last . -}}
{{- $old := get $out $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $old) -}}
{{- $value = include "slurm.over" (list $old $value) | fromJson -}}
{{- end -}}
{{- $_ := set $out $key $value -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{/* (list BASE ADDED), for vendors: as above, but lists are joined; items with the same `key` or `name` are merged. */}}
{{- define "slurm.joined" -}}
{{- $out := deepCopy (first .) -}}
{{- range $key, $value := last . -}}
{{- $old := get $out $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $old) -}}
{{- $value = include "slurm.joined" (list $old $value) | fromJson -}}
{{- else if and (kindIs "slice" $value) (kindIs "slice" $old) -}}
{{- $named := dict -}}
{{- range $item := $value -}}
{{- if kindIs "map" $item -}}{{- $name := $item.key | default $item.name -}}{{- if $name -}}{{- $_ := set $named $name $item -}}{{- end -}}{{- end -}}
{{- end -}}
{{- $list := list -}}
{{- range $item := $old -}}
{{- if kindIs "map" $item -}}
{{- $name := $item.key | default $item.name | default "" -}}
{{- if hasKey $named $name -}}
{{- $item = include "slurm.joined" (list $item (get $named $name)) | fromJson -}}
{{- $_ := unset $named $name -}}
{{- end -}}
{{- end -}}
{{- $list = append $list $item -}}
{{- end -}}
{{- range $item := $value -}}
{{- $name := "" -}}
{{- if kindIs "map" $item -}}{{- $name = $item.key | default $item.name | default "" -}}{{- end -}}
{{- if or (not $name) (hasKey $named $name) -}}{{- $list = append $list $item -}}{{- end -}}
{{- end -}}
{{- $value = $list -}}
{{- end -}}
{{- $_ := set $out $key $value -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{/* (dict "what" PATH "image" I) */}}
{{- define "slurm.image" -}}
{{- if kindIs "string" .image -}}
{{- required (printf "%s: an image is required" .what) .image -}}
{{- else -}}
{{- $image := .image | default dict -}}
{{- $repository := required (printf "%s.repository: a repository is required" .what) $image.repository -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%v" $repository (required (printf "%s.tag: a tag or a digest is required" .what) $image.tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" $ "what" PATH "container" C) */}}
{{- define "slurm.container" -}}
{{- $container := include "slurm.present" .container | fromJson -}}
{{- $_ := set $container "image" (include "slurm.image" (dict "what" (printf "%s.image" .what) "image" $container.image)) -}}
{{- if not $container.imagePullPolicy -}}{{- $_ := set $container "imagePullPolicy" .root.Values.imagePullPolicy -}}{{- end -}}
{{- toJson $container -}}
{{- end -}}

{{/* (dict "root" $ "values" V): a PodTemplate of V.metadata and V.podSpec */}}
{{- define "slurm.template" -}}
{{- $spec := include "slurm.present" (.values.podSpec | default dict) | fromJson -}}
{{- $secrets := concat ($spec.imagePullSecrets | default list) (.root.Values.imagePullSecrets | default list) -}}
{{- if $secrets -}}{{- $_ := set $spec "imagePullSecrets" $secrets -}}{{- end -}}
{{- $class := .root.Values.priorityClass -}}
{{- if and $class.enabled (not $spec.priorityClassName) -}}{{- $_ := set $spec "priorityClassName" $class.name -}}{{- end -}}
{{- $template := dict "spec" $spec -}}
{{- with include "slurm.present" (pick (.values.metadata | default dict) "labels" "annotations") | fromJson -}}
{{- $_ := set $template "metadata" . -}}
{{- end -}}
{{- toJson $template -}}
{{- end -}}

{{/* One value of a Slurm configuration file, "" for none. Whole numbers come as floats from YAML; YES comes as true. */}}
{{- define "slurm.value" -}}
{{- if kindIs "invalid" . -}}
{{- else if kindIs "slice" . -}}
{{- $words := list -}}
{{- range . }}{{ $words = append $words (include "slurm.value" . | trim) }}{{ end -}}
{{- compact $words | join "," -}}
{{- else if kindIs "bool" . -}}
{{- ternary "YES" "NO" . -}}
{{- else if kindIs "float64" . -}}
{{- if eq . (floor .) }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* (dict "text" T "map" M "separator" S): T, or the items of M. `Key=` alone would be a parse error in Slurm, or take the
     next item of the line for its value. */}}
{{- define "slurm.conf" -}}
{{- if .text -}}
{{- .text | trimSuffix "\n" -}}
{{- else -}}
{{- $items := list -}}
{{- range $key := keys (.map | default dict) | sortAlpha -}}
{{- with include "slurm.value" (get $.map $key) | trim -}}{{- $items = append $items (printf "%s=%s" $key .) -}}{{- end -}}
{{- end -}}
{{- join .separator $items -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" $ "which" "slurm"): the reference to a key Secret */}}
{{- define "slurm.keyRef" -}}
{{- $values := get .root.Values (printf "%sKey" .which) -}}
{{- $ref := $values.secretRef | default dict -}}
{{- toJson (dict "name" ($ref.name | default (printf "%s-auth-%s" (include "slurm.fullname" .root) .which)) "key" ($ref.key | default (printf "%s.key" .which))) -}}
{{- end -}}

{{/* "true": Helm would refuse to take the object over. (dict "root" $ "object" O) */}}
{{- define "slurm.foreign" -}}
{{- $annotations := .object.metadata.annotations | default dict -}}
{{- if or (ne .root.Release.Name (get $annotations "meta.helm.sh/release-name")) (ne .root.Release.Namespace (get $annotations "meta.helm.sh/release-namespace")) -}}
true
{{- end -}}
{{- end -}}

{{- define "slurm.sssdRef" -}}
{{- $ref := .Values.sssd.secretRef | default dict -}}
{{- toJson (dict "name" ($ref.name | default (printf "%s-sssd-conf" (include "slurm.fullname" .))) "key" ($ref.key | default "sssd.conf")) -}}
{{- end -}}

{{/* Controller and Accounting: keys, and where it is when it is not here. (dict "root" $ "values" V) */}}
{{- define "slurm.common" -}}
{{- $spec := dict "slurmKeyRef" (include "slurm.keyRef" (dict "root" .root "which" "slurm") | fromJson) "jwtKeyRef" (include "slurm.keyRef" (dict "root" .root "which" "jwt") | fromJson) -}}
{{- if .root.Values.jwksKeys.enabled -}}
{{- $ref := .root.Values.jwksKeys.configMapRef | default dict -}}
{{- $_ := set $spec "jwksKeyRef" (dict "name" ($ref.name | default (printf "%s-auth-jwks" (include "slurm.fullname" .root))) "key" ($ref.key | default "jwks.json")) -}}
{{- end -}}
{{- if .values.external -}}
{{- $_ := set $spec "external" true -}}
{{- $_ := set $spec "externalConfig" (pick .values.externalConfig "host" "port") -}}
{{- end -}}
{{- toJson $spec -}}
{{- end -}}

{{/* All enabled entries with their defaults: {key: values}. (dict "root" $ "which" "nodeset") */}}
{{- define "slurm.sets" -}}
{{- $defaults := get .root.Values (printf "%sDefaults" .which) -}}
{{- $out := dict -}}
{{- range $key, $entry := get .root.Values (printf "%ss" .which) -}}
{{- $values := include "slurm.over" (list $defaults ($entry | default dict)) | fromJson -}}
{{- $values = merge $values (dict "slurmd" dict "logfile" dict "login" dict "initconf" dict "partition" dict "ssh" dict) -}}
{{- if dig "enabled" true $values -}}{{- $_ := set $out $key $values -}}{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{/* Lines for the partitions. */}}
{{- define "slurm.partitions" -}}
{{- $known := include "slurm.sets" (dict "root" . "which" "nodeset") | fromJson -}}
{{- $lines := list -}}
{{- range $name := keys (.Values.partitions | default dict) | sortAlpha -}}
{{- $partition := get $.Values.partitions $name | default dict -}}
{{- if not $partition.nodesets -}}
{{- fail (printf "partitions.%s.nodesets is empty; name NodeSets, or ALL" $name) -}}
{{- end -}}
{{- if $partition.enabled -}}
{{- range $set := $partition.nodesets -}}
{{- if not (or (eq $set "ALL") (hasKey $known $set)) -}}
{{- fail (printf "partitions.%s.nodesets: %q is not an enabled entry of nodesets" $name $set) -}}
{{- end -}}
{{- end -}}
{{- $config := include "slurm.conf" (dict "text" $partition.config "map" $partition.configMap "separator" " ") -}}
{{- $lines = append $lines (printf "PartitionName=%s Nodes=%s %s" $name ($partition.nodesets | uniq | sortAlpha | join ",") $config | trim) -}}
{{- end -}}
{{- end -}}
{{- join "\n" $lines -}}
{{- end -}}

{{/* (dict "root" $ "which" "prolog" "name" "prolog"): references to ConfigMaps, ours first */}}
{{- define "slurm.scriptRefs" -}}
{{- $refs := list -}}
{{- $prefix := include "slurm.fullname" .root -}}
{{- if get .root.Values (printf "%sScripts" .which) -}}{{- $refs = append $refs (dict "name" (printf "%s-%s-scripts" $prefix .name)) -}}{{- end -}}
{{- $refs = concat $refs (get .root.Values (printf "%sScriptRefs" .which) | default list) -}}
{{- if and .root.Values.vendor.nvidia.dcgm.enabled (has .which (list "prolog" "epilog")) -}}
{{- $refs = append $refs (dict "name" (printf "%s-%s-dcgm" $prefix .name)) -}}
{{- end -}}
{{- toJson $refs -}}
{{- end -}}

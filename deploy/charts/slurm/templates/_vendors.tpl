{{/* Names of the ConfigMaps with a gres.conf that vendors bring, unless the user has one. */}}
{{- define "slurm.gresMaps" -}}
{{- $names := list -}}
{{- if not (hasKey (.Values.configFiles | default dict) "gres.conf") -}}
{{- $google := .Values.vendor.google -}}
{{- if $google.a3mega -}}{{- $names = append $names (printf "%s-config-a3mega" (include "slurm.fullname" .)) -}}
{{- else if $google.a3ultra -}}{{- $names = append $names (printf "%s-config-a3ultra" (include "slurm.fullname" .)) -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* The values of a NodeSet with what vendors add. (dict "root" $ "key" KEY "values" V) */}}
{{- define "slurm.withVendors" -}}
{{- $values := .values -}}
{{- $vendor := .root.Values.vendor -}}
{{- $gpus := false -}}
{{- range $resources := list ($values.slurmd.resources | default dict) (($values.podSpec | default dict).resources | default dict) -}}
{{- range $part := list "limits" "requests" -}}
{{- if hasKey (get $resources $part | default dict) "nvidia.com/gpu" -}}{{- $gpus = true -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $added := list -}}
{{- if and $vendor.nvidia.dcgm.enabled $gpus -}}{{- $added = append $added (include "slurm.dcgmNode" $vendor.nvidia.dcgm) -}}{{- end -}}
{{- range $kind := list "a3mega" "a3ultra" -}}
{{- range $entry := get $vendor.google $kind -}}
{{- if eq $entry.targetNodeSet $.key -}}
{{- if ne (len ($entry.networks | default list)) 9 -}}
{{- fail (printf "vendor.google.%s: targetNodeSet %s needs exactly 9 networks, not %d" $kind $.key (len ($entry.networks | default list))) -}}
{{- end -}}
{{- $added = append $added (include (printf "slurm.%s" $kind) $entry) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $added -}}
{{- $vendors := fromYaml . -}}
{{- $values = include "slurm.toInit" (list $values $vendors) | fromJson -}}
{{- $values = include "slurm.joined" (list $values $vendors) | fromJson -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}

{{/* (list VALUES ADDED): what VALUES says under podSpec.containers of an init container of ADDED, said where it belongs. */}}
{{- define "slurm.toInit" -}}
{{- $values := deepCopy (first .) -}}
{{- $names := list -}}
{{- range dig "podSpec" "initContainers" list (last .) -}}{{- $names = append $names .name -}}{{- end -}}
{{- $pod := $values.podSpec | default dict -}}
{{- $init := $pod.initContainers | default list -}}
{{- $others := list -}}
{{- range $pod.containers -}}
{{- if has .name $names -}}{{- $init = append $init . -}}{{- else -}}{{- $others = append $others . -}}{{- end -}}
{{- end -}}
{{- if gt (len $init) (len ($pod.initContainers | default list)) -}}
{{- $_ := set $values "podSpec" (merge (dict "initContainers" $init "containers" $others) (omit $pod "initContainers" "containers")) -}}
{{- end -}}
{{- toJson $values -}}
{{- end -}}

{{- define "slurm.dcgmNode" -}}
slurmd:
  volumeMounts:
    - {name: dcgm-job-mapping, mountPath: {{ .jobMappingDir }}}
podSpec:
  volumes:
    - {name: dcgm-job-mapping, hostPath: {path: {{ .jobMappingDir }}, type: DirectoryOrCreate}}
{{- end -}}

{{- define "slurm.dcgmProlog" -}}
#!/bin/sh
# Tells DCGM's exporter which job has which GPU. A failure here must not keep the job from running.
dir={{ .jobMappingDir | squote }}
[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0
mkdir -p "$dir" || logger -t slurm-dcgm "cannot make $dir"
for gpu in $(echo "$SLURM_JOB_GPUS" | tr ',' ' '); do
  echo "$SLURM_JOB_ID" > "$dir/$gpu" || logger -t slurm-dcgm "cannot write $dir/$gpu"
done
exit 0
{{ end -}}

{{- define "slurm.dcgmEpilog" -}}
#!/bin/sh
dir={{ .jobMappingDir | squote }}
for gpu in $(echo "${SLURM_JOB_GPUS:-}" | tr ',' ' '); do
  rm -f "$dir/$gpu" || logger -t slurm-dcgm "cannot remove $dir/$gpu"
done
exit 0
{{ end -}}

{{/* Interfaces of a pod in nine networks. (dict "networks" N "names" LIST) */}}
{{- define "slurm.gkeNetworks" -}}
{{- $interfaces := list -}}
{{- range $i, $network := .networks -}}
{{- $interfaces = append $interfaces (dict "interfaceName" (index $.names $i) "network" $network) -}}
{{- end -}}
networking.gke.io/default-interface: eth0
networking.gke.io/interfaces: {{ toJson $interfaces | squote }}
{{- end -}}

{{/* Google A3 Mega: eight H100, GPUDirect-TCPXO. Source: GKE documentation, "Maximize GPU network bandwidth". */}}
{{- define "slurm.a3mega" -}}
metadata:
  annotations:
    {{- include "slurm.gkeNetworks" (dict "networks" .networks "names" (list "eth0" "eth1" "eth2" "eth3" "eth4" "eth5" "eth6" "eth7" "eth8")) | nindent 4 }}
    devices.gke.io/container.tcpxo-daemon: |
      {{- range $i := until 8 }}
      - path: /dev/nvidia{{ $i }}
      {{- end }}
      - path: /dev/nvidiactl
      - path: /dev/nvidia-uvm
      - path: /dev/dmabuf_import_helper
extraConfMap:
  Gres: gpu:nvidia_h100_80gb_hbm3:8
slurmd:
  resources:
    requests: {nvidia.com/gpu: 8}
    limits: {nvidia.com/gpu: 8}
  env:
    - {name: LD_LIBRARY_PATH, value: /usr/local/nvidia/lib64}
    - {name: NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY, value: /dev/aperture_devices}
  volumeMounts:
    - {name: nvidia, mountPath: /usr/local/nvidia}
    - {name: tcpxo, mountPath: /var/lib/tcpxo}
    - {name: aperture-devices, mountPath: /dev/aperture_devices}
podSpec:
  nodeSelector:
    cloud.google.com/gke-nodepool: {{ .nodePool }}
  initContainers:
    - name: tcpxo-daemon
      image: us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/tcpgpudmarxd-dev:v1.0.21
      restartPolicy: Always
      command: [/bin/sh, -c]
      args: ["chmod 755 /fts/entrypoint_rxdm_container.sh && exec /fts/entrypoint_rxdm_container.sh --num_hops=2 --num_nics=8 --uid= --alsologtostderr"]
      securityContext:
        capabilities: {add: [NET_ADMIN, NET_BIND_SERVICE]}
      env:
        - {name: LD_LIBRARY_PATH, value: /usr/local/nvidia/lib64}
      volumeMounts:
        - {name: libraries, mountPath: /usr/local/nvidia/lib64}
        - {name: sys, mountPath: /hostsysfs}
        - {name: proc-sys, mountPath: /hostprocsysfs}
  volumes:
    - {name: nvidia, hostPath: {path: /home/kubernetes/bin/nvidia}}
    - {name: libraries, hostPath: {path: /home/kubernetes/bin/nvidia/lib64}}
    - {name: tcpxo, hostPath: {path: /var/lib/tcpxo}}
    - {name: sys, hostPath: {path: /sys}}
    - {name: proc-sys, hostPath: {path: /proc/sys}}
    - {name: aperture-devices, hostPath: {path: /dev/aperture_devices}}
{{- end -}}

{{/* Google A3 Ultra: eight H200, RDMA. Source: GKE documentation, "AI Hypercomputer: create a cluster with GPUDirect RDMA". */}}
{{- define "slurm.a3ultra" -}}
metadata:
  annotations:
    {{- include "slurm.gkeNetworks" (dict "networks" .networks "names" (list "eth0" "eth2" "eth3" "eth4" "eth5" "eth6" "eth7" "eth8" "eth9")) | nindent 4 }}
extraConfMap:
  Gres: gpu:nvidia_h200:8
slurmd:
  resources:
    requests: {nvidia.com/gpu: 8}
    limits: {nvidia.com/gpu: 8}
  env:
    - {name: PATH, value: "/usr/local/nvidia/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    - {name: LD_LIBRARY_PATH, value: "/usr/local/nvidia/lib64:/usr/local/gib/lib64"}
  volumeMounts:
    - {name: library-dir-host, mountPath: /usr/local/nvidia}
    - {name: gib, mountPath: /usr/local/gib}
podSpec:
  nodeSelector:
    cloud.google.com/gke-nodepool: {{ .nodePool }}
  volumes:
    - {name: library-dir-host, hostPath: {path: /home/kubernetes/bin/nvidia}}
    - {name: gib, hostPath: {path: /home/kubernetes/bin/gib}}
    # for containers of podSpec
    - {name: sys, hostPath: {path: /sys}}
    - {name: proc-sys, hostPath: {path: /proc/sys}}
{{- end -}}

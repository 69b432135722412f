package main

import (
	"fmt"
	"io"
	"reflect"
	"sort"
	"strings"
	"sync"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
)

// Kinds by their names; where two groups share a kind (Event), the core one.
var kinds = sync.OnceValue(func() map[string]any {
	list := []any{
		core.Pod{}, core.Node{}, core.Service{}, core.ServiceAccount{}, core.Secret{}, core.ConfigMap{}, core.Namespace{},
		core.PersistentVolume{}, core.PersistentVolumeClaim{}, core.PodTemplate{}, core.ReplicationController{},
		core.Endpoints{}, core.Event{}, core.LimitRange{}, core.ResourceQuota{},
		apps.Deployment{}, apps.StatefulSet{}, apps.DaemonSet{}, apps.ReplicaSet{}, apps.ControllerRevision{},
		batch.Job{}, batch.CronJob{}, autoscaling.HorizontalPodAutoscaler{}, policy.PodDisruptionBudget{},
		networking.NetworkPolicy{}, networking.Ingress{}, networking.IngressClass{},
		rbac.Role{}, rbac.RoleBinding{}, rbac.ClusterRole{}, rbac.ClusterRoleBinding{},
		coordination.Lease{}, scheduling.PriorityClass{}, discovery.EndpointSlice{}, certificates.CertificateSigningRequest{},
		storage.StorageClass{}, storage.CSIDriver{}, storage.CSINode{}, storage.VolumeAttachment{},
		resource.ResourceClaim{}, resource.ResourceClaimTemplate{}, resource.ResourceSlice{}, resource.DeviceClass{},
		admissionregistration.MutatingWebhookConfiguration{}, admissionregistration.ValidatingWebhookConfiguration{},
	}
	out := map[string]any{}
	for _, object := range list {
		out[reflect.TypeOf(object).Name()] = object
	}
	return out
})

// Structs that are one scalar in JSON.
var scalars = map[string]bool{"Time": true, "MicroTime": true, "Quantity": true, "IntOrString": true}

// Structs whose JSON is anything.
var opaque = map[string]bool{"FieldsV1": true, "RawExtension": true, "JSON": true}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// Types of different groups that share a name.
var renamed = map[string]string{
	"k8s.io/api/core/v1.ResourceClaim":                     "ContainerResourceClaim",
	"k8s.io/api/discovery/v1.EndpointPort":                 "DiscoveryEndpointPort",
	"k8s.io/api/storage/v1.TokenRequest":                   "StorageTokenRequest",
	"k8s.io/api/admissionregistration/v1.ServiceReference": "AdmissionServiceReference",
}

func typeName(t reflect.Type) string {
	if name, ok := renamed[t.PkgPath()+"."+t.Name()]; ok {
		return name
	}
	return t.Name()
}

type field struct {
	name, text string
	next       reflect.Type
}

func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name := strings.Split(f.Tag.Get("json"), ",")[0]
		ft := deref(f.Type)
		if f.Anonymous && name == "" {
			out = append(out, fieldsOf(ft)...)
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		entry := field{name: name}
		switch ft.Kind() {
		case reflect.Struct:
			if scalars[ft.Name()] {
				continue
			}
			if opaque[ft.Name()] {
				entry.text = name + "{}"
			} else {
				entry.text, entry.next = fmt.Sprintf("%s{%s}", name, typeName(ft)), ft
			}
		case reflect.Map:
			entry.text = name + "{}"
		case reflect.Slice:
			element := deref(ft.Elem())
			if element.Kind() == reflect.Uint8 {
				continue
			}
			entry.text = name + "[]"
			if element.Kind() == reflect.Struct && !scalars[element.Name()] && !opaque[element.Name()] {
				entry.text, entry.next = fmt.Sprintf("%s[%s]", name, typeName(element)), element
			}
		default:
			continue
		}
		for _, strategy := range strings.Split(f.Tag.Get("patchStrategy"), ",") {
			switch strategy {
			case "":
			case "merge":
				entry.text += "+" + f.Tag.Get("patchMergeKey")
			case "replace":
				entry.text += "="
			case "retainKeys":
				entry.text += "!"
			default:
				panic("unknown strategy " + strategy)
			}
		}
		out = append(out, entry)
	}
	return out
}

func printSchema(w io.Writer) {
	lines := map[string]string{}
	var visit func(t reflect.Type)
	owner := map[string]reflect.Type{}
	visit = func(t reflect.Type) {
		name := typeName(t)
		if before, seen := owner[name]; seen {
			if before != t {
				panic(fmt.Sprintf("two types named %s: %s and %s", name, before.PkgPath(), t.PkgPath()))
			}
			return
		}
		owner[name] = t
		var texts []string
		for _, f := range fieldsOf(t) {
			texts = append(texts, f.text)
			if f.next != nil {
				visit(f.next)
			}
		}
		sort.Strings(texts)
		lines[name] = strings.Join(append([]string{name}, texts...), " ")
	}
	var names []string
	for name := range kinds() {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		visit(reflect.TypeOf(kinds()[name]))
	}
	// Types of scalars only need no line; long lines go on behind an indent.
	var all []string
	for name, line := range lines {
		if line != name {
			all = append(all, line)
		}
	}
	sort.Strings(all)
	for _, line := range append([]string{"kinds " + strings.Join(names, " ")}, all...) {
		width := 0
		for i, word := range strings.Fields(line) {
			if i > 0 && width+1+len(word) > 118 {
				fmt.Fprint(w, "\n ")
				width = 1
			}
			if i > 0 {
				fmt.Fprint(w, " ")
				width++
			}
			fmt.Fprint(w, word)
			width += len(word)
		}
		fmt.Fprintln(w)
	}
}
